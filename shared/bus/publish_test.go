package bus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/testkit"
)

// jobStream creates the job stream with a changed configuration.
func jobStream(t *testing.T, url string, change func(*jetstream.StreamConfig)) jetstream.JetStream {
	t.Helper()
	js := testkit.JetStream(t, url)
	config := jetstream.StreamConfig{
		Name: contract.StreamJobs, Subjects: []string{contract.SubjectsJobs}, Retention: jetstream.WorkQueuePolicy,
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxBytes: 64 << 20,
	}
	change(&config)
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return js
}

// A server that does not acknowledge messages does not delay publishers: unacknowledged messages
// are limited, and further messages are dropped immediately.
func TestPublishingDoesNotWaitForAServerThatAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	jobStream(t, url, func(c *jetstream.StreamConfig) { c.NoAck = true })
	b := dial(t, url)
	jobs := make([]domain.Job, 8192)
	for i := range jobs {
		jobs[i] = job(fmt.Sprintf("run_%d", i), 1)
	}
	b.PublishJobs(jobs...)
	began := time.Now()
	for i := range 1000 {
		b.PublishJobs(job(fmt.Sprintf("run_late_%d", i), 1))
	}
	if took := time.Since(began); took > 25*time.Second { // waiting 50 ms for each message would take 50 s
		t.Errorf("1000 runs waited %s for acknowledgements", took)
	}
}

// The stream that an earlier release created keeps its messages and gets the duplicate window of
// this release.
func TestUpdateStreamShortensTheDuplicateWindow(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	js := jobStream(t, url, func(c *jetstream.StreamConfig) { c.Duplicates = 10 * time.Minute })
	b := dial(t, url)
	b.PublishJobs(job("run_1", 1))
	made, err := b.EnsureStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.UpdateStream(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := js.Stream(context.WithoutCancel(t.Context()), contract.StreamJobs)
	if err != nil {
		t.Fatal(err)
	}
	if info := stream.CachedInfo(); info.Config.Duplicates != 2*time.Minute || !info.Created.Equal(made.Made) {
		t.Errorf("the stream, made %s, has %+v", info.Created, info.Config)
	}
	if got := fetch(t, b.Lane(domain.LaneChat), 1); len(got) != 1 {
		t.Errorf("%d messages are left", len(got))
	}
}

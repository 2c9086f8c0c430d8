package bus_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/testkit"
)

func dial(t *testing.T, url string) *bus.Bus {
	t.Helper()
	b, err := bus.Dial(url, "test", zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func job(runID string, dispatch int) domain.Job {
	return domain.Job{RunID: runID, OrganizationID: "org_a", Lane: domain.LaneChat, Dedupe: "d-" + runID, DispatchNo: dispatch, ReplyTo: "_INBOX.x"}
}

// fetch returns at most limit job messages that a lane delivers within a second.
func fetch(t *testing.T, lane *bus.Lane, limit int) []*bus.JobMessage {
	t.Helper()
	var got []*bus.JobMessage
	if err := lane.Fetch(t.Context(), limit, time.Second, func(d *bus.JobMessage) { got = append(got, d) }); err != nil {
		t.Fatalf("fetching: %v", err)
	}
	return got
}

// TestUnreachableServers checks that the log names the servers if none of them is reachable, without
// their passwords.
func TestUnreachableServers(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b, err := bus.Dial("nats://agent:secret@127.0.0.1:1, nats://127.0.0.1:2", "test", zerolog.New(&log).Level(zerolog.WarnLevel))
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if got := log.String(); !strings.Contains(got, `"servers":["127.0.0.1:1","127.0.0.1:2"]`) ||
		!strings.Contains(got, "NATS is not reachable yet") || strings.Contains(got, "secret") {
		t.Errorf("log: %s", got)
	}
}

func TestADispatchPublishesOnceAndARedispatchAgain(t *testing.T) {
	t.Parallel()
	b := dial(t, testkit.NATS(t))
	made, err := b.EnsureStream(t.Context())
	if err != nil || made.Made.IsZero() {
		t.Fatalf("stream made at %v, %v", made, err)
	}
	if again, err := b.EnsureStream(t.Context()); err != nil || !again.Made.Equal(made.Made) || again.Forgot {
		t.Fatalf("stream made again at %v, %v", again, err)
	}
	b.PublishJobs(job("run_1", 1), job("run_1", 1), job("run_2", 1), job("run_1", 2))
	lane := b.Lane(domain.LaneChat)
	got := fetch(t, lane, 4)
	if len(got) != 3 {
		t.Fatalf("%d job messages, want 3", len(got))
	}
	if got[0].RunID != "run_1" || got[1].RunID != "run_2" || got[2].RunID != "run_1" || got[0].ReplyTo != "_INBOX.x" {
		t.Errorf("job messages %+v", got)
	}
	got[0].Ack()
	got[1].Release()
	if again := fetch(t, lane, 1); len(again) != 1 || again[0].RunID != "run_2" {
		t.Errorf("after nak: %+v", again)
	}
	if other := fetch(t, b.Lane(domain.LaneAutomation), 1); len(other) != 0 {
		t.Errorf("another lane received %+v", other)
	}
}

func TestDocumentsHaveALaneOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := dial(t, testkit.NATS(t))
	if _, err := b.EnsureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.PublishJobs(domain.Job{RunID: "doc_1", OrganizationID: "org_a", Lane: domain.LaneIngest, Dedupe: "d", DispatchNo: 1}, job("run_1", 1))
	if heard := fetch(t, b.Lane(domain.LaneIngest), 1); len(heard) != 1 || heard[0].RunID != "doc_1" {
		t.Errorf("documents: %+v", heard)
	}
	if heard := fetch(t, b.Lane(domain.LaneChat), 1); len(heard) != 1 || heard[0].RunID != "run_1" {
		t.Errorf("chats: %+v", heard)
	}
}

func TestOldestUndeliveredIgnoresDeliveredMessages(t *testing.T) {
	t.Parallel()
	b := dial(t, testkit.NATS(t))
	if _, err := b.EnsureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, found, err := b.OldestUndelivered(t.Context(), domain.LaneChat); err != nil || found {
		t.Errorf("an empty stream has an undelivered job message: %v", err)
	}
	before := time.Now().Add(-time.Second)
	b.PublishJobs(job("run_1", 1), job("run_2", 1))
	first := fetch(t, b.Lane(domain.LaneChat), 1)
	var oldest time.Time
	testkit.Eventually(t, 20*time.Second, "run_2 is stored", func() bool {
		at, found, err := b.OldestUndelivered(t.Context(), domain.LaneChat)
		oldest = at
		return err == nil && found
	})
	if len(first) != 1 || oldest.Before(before) {
		t.Errorf("%d messages, oldest %v", len(first), oldest)
	}
	fetch(t, b.Lane(domain.LaneChat), 1)
	if _, found, err := b.OldestUndelivered(t.Context(), domain.LaneChat); err != nil || found {
		t.Errorf("delivered job messages count as undelivered: %v", err)
	}
}

func TestFetchFindsAStreamThatWasDeleted(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	b := dial(t, url)
	lane := b.Lane(domain.LaneChat)
	fetch(t, lane, 1)
	nc := testkit.NATSConn(t, url)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(contract.StreamJobs); err != nil {
		t.Fatal(err)
	}
	_ = lane.Fetch(t.Context(), 1, time.Second, func(*bus.JobMessage) {}) // the first fetch may fail; the next fetch opens the stream and the consumer again
	if err := lane.Fetch(t.Context(), 1, time.Second, func(*bus.JobMessage) {}); err != nil {
		t.Fatalf("fetching after the stream was deleted: %v", err)
	}
	b.PublishJobs(job("run_1", 1))
	if got := fetch(t, lane, 1); len(got) != 1 {
		t.Errorf("%d job messages, want 1", len(got))
	}
}

func TestNoticesReachTheirSubscribers(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	worker, ingress := dial(t, url), dial(t, url)
	replies, done, cancelled := make(chan string, 4), make(chan struct{}, 4), make(chan string, 4)
	inbox := ingress.NewInbox()
	if _, err := ingress.OnReplies(inbox, func(runID string, body []byte) { replies <- runID + "=" + string(body) }); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.OnCancelled(func(runID string) { cancelled <- runID }); err != nil {
		t.Fatal(err)
	}
	if err := worker.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop, err := ingress.OnDone(t.Context(), "run_1", func() { done <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	worker.Done("run_1", inbox, []byte("result"))
	ingress.Cancelled("run_2")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		select {
		case got := <-replies:
			if got != "run_1=result" {
				t.Errorf("reply %s", got)
			}
		case <-done:
		case got := <-cancelled:
			if got != "run_2" {
				t.Errorf("cancelled %s", got)
			}
		case <-ctx.Done():
			t.Fatal("a notice did not arrive")
		}
	}
	stop()
}

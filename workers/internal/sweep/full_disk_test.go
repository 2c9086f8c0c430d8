package sweep

import (
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/testkit"
)

// TestStreamIsRecreatedAfterAFullDisk fills the disk of a NATS server. The server still responds to
// pings, but refuses writes to the stream, even after the disk has space again. The sweeper must
// create the stream again.
func TestStreamIsRecreatedAfterAFullDisk(t *testing.T) {
	t.Parallel()
	disk, err := testkit.MemoryDisk(t, 64)
	if err != nil {
		t.Skipf("NOT TESTED: a full disk of NATS: %v", err)
	}
	server := testkit.NATSProcess(t, disk.Dir)
	b, err := bus.Dial(server.URL, "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.EnsureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := New(nil, b, zerolog.Nop())
	if err := s.checkJobs(t.Context()); err != nil {
		t.Fatal(err)
	}

	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	var failure error
	for n, end := 0, time.Now().Add(time.Minute); failure == nil && time.Now().Before(end); n++ { // the first writes may still succeed
		b.PublishJobs(domain.Job{RunID: "run_1", OrganizationID: "org_a", Lane: domain.LaneChat, Dedupe: "d", DispatchNo: n})
		failure = s.checkJobs(t.Context())
	}
	if !errors.Is(failure, bus.ErrNotStored) {
		t.Fatalf("with a full disk: %v", failure)
	}
	if err := b.Ping(t.Context()); err != nil {
		t.Errorf("the server does not even answer: %v", err)
	}

	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); failure != nil && time.Now().Before(end); {
		if !s.unwritableSince.IsZero() {
			s.unwritableSince = time.Now().Add(-unwritableFor) // pretend that the stream has been unwritable for long enough
		}
		failure = s.checkJobs(t.Context())
	}
	if failure != nil {
		t.Errorf("after there is space again: %v", failure)
	}
}

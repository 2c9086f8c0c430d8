package bus_test

import (
	"fmt"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/testkit"
)

// TestDamagedStoreIsRepaired truncates the files of the job stream, as a crash may. Some messages
// may be lost, but later job messages are delivered.
func TestDamagedStoreIsRepaired(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"*.blk", "index.db", "o.dat", "meta.inf", "meta.sum", "*"} {
		for _, half := range []bool{true, false} {
			kept := "nothing"
			if half {
				kept = "half"
			}
			t.Run(kept+" of "+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				server := testkit.NATSProcess(t, dir)
				b := dial(t, server.URL)
				lane := b.Lane(domain.LaneChat)
				if err := lane.Fetch(t.Context(), 1, 10*time.Millisecond, nil); err != nil {
					t.Fatal(err)
				}
				b.PublishJobs(job("run_1", 1), job("run_2", 1), job("run_3", 1))
				for i, d := range fetch(t, lane, 3) {
					if i > 0 {
						d.Ack()
					}
				}
				server.Term() // the server writes all data to disk before it exits
				if err := server.Wait(20 * time.Second); err != nil {
					t.Fatal(err)
				}
				if testkit.CutFiles(t, dir, name, half) == 0 && half {
					t.Fatalf("there is no %s to cut", name)
				}
				server.Restart()
				deliversAgain(t, b, lane)
			})
		}
	}
}

// deliversAgain publishes job messages until a worker receives one.
func deliversAgain(t *testing.T, b *bus.Bus, lane *bus.Lane) {
	t.Helper()
	var last error
	for over := time.Now().Add(30 * time.Second); time.Now().Before(over); {
		found, err := b.EnsureStream(t.Context())
		if last = err; err != nil {
			continue
		}
		if found.Forgot { // as the sweeper does
			if last = b.RemakeStream(t.Context()); last != nil {
				continue
			}
		}
		b.PublishJobs(job("run_4", 1))
		heard := false
		last = lane.Fetch(t.Context(), 4, time.Second, func(d *bus.JobMessage) {
			heard = heard || d.RunID == "run_4"
			d.Ack()
		})
		if heard {
			return
		}
	}
	t.Fatalf("nothing is delivered any more: %v", last)
}

// TestAStreamThatForgot deletes a stream's messages and metadata, as a power failure may, and keeps
// the state of its consumers. No server repairs such a stream by itself. EnsureStream detects it,
// and RemakeStream repairs it.
func TestAStreamThatForgot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := testkit.NATSProcess(t, dir)
	b := dial(t, server.URL)
	lane := b.Lane(domain.LaneChat)
	if err := lane.Fetch(t.Context(), 1, 10*time.Millisecond, nil); err != nil {
		t.Fatal(err)
	}
	const before = 300
	for n := range before {
		b.PublishJobs(job(fmt.Sprintf("run_%d", n), 1))
	}
	for _, d := range fetch(t, lane, before) {
		d.Ack()
	}
	server.Term() // the server writes all data to disk before it exits
	if err := server.Wait(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	forget(t, dir)
	server.Restart()
	found, err := b.EnsureStream(t.Context())
	for over := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(over); {
		found, err = b.EnsureStream(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if !found.Forgot {
		t.Fatalf("what was lost is not noticed: %+v", found)
	}
	b.PublishJobs(job("run_new", 1))
	if got := fetch(t, lane, 1); len(got) != 0 {
		t.Fatalf("%s is delivered: nothing is wrong with this stream", got[0].RunID)
	}
	if err := b.RemakeStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliversAgain(t, b, lane)
	if again, err := b.EnsureStream(t.Context()); err != nil || again.Forgot || again.Made.Equal(found.Made) {
		t.Errorf("recreated: %+v, %v", again, err)
	}
}

func forget(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"*.blk", "index.db", "meta.inf"} {
		if testkit.CutFiles(t, dir, name, false) == 0 && name != "*.blk" { // the stream may have no *.blk files if it stores no messages
			t.Fatalf("there is no %s to cut", name)
		}
	}
}

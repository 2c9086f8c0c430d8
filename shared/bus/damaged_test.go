package bus_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/testkit"
)

// TestDamagedStoreIsNoEnd cuts the files of the job stream, as a crash may leave them: whatever is lost with them, doorbells that are rung
// from then on are delivered.
func TestDamagedStoreIsNoEnd(t *testing.T) {
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
				b.Ring(job("run_1", 1), job("run_2", 1), job("run_3", 1))
				for i, d := range fetch(t, lane, 3) {
					if i > 0 {
						d.Ack()
					}
				}
				server.Term() // so that all is written
				if err := server.Wait(20 * time.Second); err != nil {
					t.Fatal(err)
				}
				if cutFiles(t, dir, name, half) == 0 && half {
					t.Fatalf("there is no %s to cut", name)
				}
				server.Restart()
				deliversAgain(t, b, lane)
			})
		}
	}
}

// cutFiles cuts the files of a name, to their first half or to nothing, and gives how many.
func cutFiles(t *testing.T, dir, name string, half bool) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if matches, _ := filepath.Match(name, entry.Name()); err != nil || entry.IsDir() || !matches {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		files++
		size := int64(0)
		if half {
			size = info.Size() / 2
		}
		return os.Truncate(path, size)
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// deliversAgain rings until the bell is heard.
func deliversAgain(t *testing.T, b *bus.Bus, lane *bus.Lane) {
	t.Helper()
	var last error
	for over := time.Now().Add(30 * time.Second); time.Now().Before(over); {
		if _, last = b.EnsureStream(t.Context()); last != nil {
			continue
		}
		b.Ring(job("run_4", 1))
		heard := false
		last = lane.Fetch(t.Context(), 4, time.Second, func(d *bus.Doorbell) {
			heard = heard || d.RunID == "run_4"
			d.Ack()
		})
		if heard {
			return
		}
	}
	t.Fatalf("nothing is delivered any more: %v", last)
}

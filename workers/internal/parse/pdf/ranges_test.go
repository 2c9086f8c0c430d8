package pdf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"parley/shared/testkit/pdf"
	"parley/workers/internal/document"
)

func numberedPages(t *testing.T, n int) string {
	t.Helper()
	pages := make([]pdf.Page, n)
	for i := range pages {
		pages[i] = pdf.Page{Paragraphs: []string{fmt.Sprintf("This is page %d of them all.", i+1)}}
	}
	path := filepath.Join(t.TempDir(), "document.pdf")
	if err := os.WriteFile(path, pdf.Write(pages...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRangesAreToldInOrder(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, firstPages, firstPages + 1, firstPages + rangePages, firstPages + 3*rangePages + 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			d := mustRead(t, numberedPages(t, n))
			if d.pages != n || d.info.Pages != n || len(d.blocks) != n {
				t.Fatalf("%d pages, %d at the end, %d blocks", d.pages, d.info.Pages, len(d.blocks))
			}
			for i, b := range d.blocks {
				if want := fmt.Sprintf("This is page %d of them all.", i+1); b.Page != i+1 || b.Text != want {
					t.Errorf("page %d: %q, not %q", b.Page, b.Text, want)
				}
			}
		})
	}
}

// The reader of a range pauses when the range has used its memory, and continues when pages are
// taken from the range.
func TestARangeWaitsForRoom(t *testing.T) {
	t.Parallel()
	part := newRange(1, 3)
	large := func() *page { return &page{text: make([]byte, roomAhead+1)} }
	waiting, cancel := context.WithCancel(t.Context())
	defer cancel()
	var put sync.WaitGroup
	var err error
	put.Go(func() { err = part.put(waiting, large()) })
	for len(part.pages) == 0 {
		runtime.Gosched()
	}
	cancel()
	if put.Wait(); !errors.Is(err, context.Canceled) {
		t.Fatalf("there is room for more: %v", err)
	}
	put.Go(func() { err = part.put(t.Context(), large()) })
	for range 2 {
		if p, more := part.take(); !more || len(p.text) != roomAhead+1 {
			t.Fatal("a page is missing")
		}
	}
	if put.Wait(); err != nil || part.held.Load() != 0 {
		t.Errorf("%v, %d bytes in memory", err, part.held.Load())
	}
}

// The reader of a range ends when its context ends, even while it waits.
func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	const last = firstPages + 6*rangePages
	r := newRangeReader(numberedPages(t, last))
	ctx, cancel := context.WithCancel(t.Context())
	parts := r.beginAll(ctx, 1, last)
	<-parts
	cancel()
	r.readers.Wait()
	if len(r.slots) != 0 {
		t.Errorf("%d processes are running", len(r.slots))
	}
}

func TestARangeThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRangeReader(numberedPages(t, 2))
	part := r.begin(t.Context(), 3, 4)
	if _, more := part.take(); more {
		t.Error("there is a page after the last")
	}
	if failure, is := errors.AsType[*document.Failure](part.err); !is || failure.Code != document.Damaged {
		t.Errorf("%v", part.err)
	}
}

package pdf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	// firstPages is the number of pages that are read before the total number of pages is known. A
	// document with fewer pages needs only one process.
	firstPages = 16
	// rangePages is the number of pages in each further range. It is small enough to keep all
	// processes busy, and large enough that opening the document once per range costs little.
	rangePages = 32
	// maxProcesses is the number of processes that read one document at the same time. Other
	// documents are read concurrently, too.
	maxProcesses = 4
	// roomAhead is the maximum number of bytes in a range that wait in memory until the earlier
	// ranges are written. Beyond that, the range's process waits.
	roomAhead = 8 << 20 // bytes
)

// pageRange is a range of pages that one process reads.
type pageRange struct {
	first, last int // last is 0 if the range ends with the document
	pages       chan *page
	held        atomic.Int64 // size in bytes of the pages in the channel pages
	freed       chan struct{}

	// The fields below are valid only after pages is closed.
	lastRead int // last page read
	damaged  bool
	err      error
}

func newRange(first, last int) *pageRange {
	return &pageRange{first: first, last: last, pages: make(chan *page, rangePages), freed: make(chan struct{}, 1)}
}

// read runs pdftotext for the range. spare contains page objects that can be reused.
func (r *pageRange) read(ctx context.Context, path string, spare *sync.Pool) {
	defer close(r.pages)
	args := []string{"-tsv", "-enc", "UTF-8", "-f", strconv.Itoa(r.first)}
	if r.last > 0 {
		args = append(args, "-l", strconv.Itoa(r.last))
	}

	text, err := start(ctx, nil, "pdftotext", append(args, path, "-")...)
	if err != nil {
		r.err = err
		return
	}

	err = r.scan(ctx, newScanner(text.stdout, r.first, 1), spare)
	if !errors.Is(err, io.EOF) {
		r.err = abandon(text, err)
		return
	}

	r.err = text.finish()
	if r.err == nil && r.lastRead == 0 {
		r.err = errDamaged
	}
	r.damaged = text.damaged()
}

// scan forwards the pages that a process outputs, until it ends.
func (r *pageRange) scan(ctx context.Context, from *scanner, spare *sync.Pool) error {
	for {
		p, _ := spare.Get().(*page)
		if p == nil {
			p = &page{}
		}
		if err := from.next(p); err != nil {
			return err
		}
		r.lastRead = p.number
		if err := r.put(ctx, p); err != nil {
			return err
		}
	}
}

// put passes a page on. It waits if too many bytes from the range are in memory.
func (r *pageRange) put(ctx context.Context, p *page) error {
	r.held.Add(p.size())
	select {
	case r.pages <- p:
		return r.wait(ctx)
	case <-ctx.Done():
		return fmt.Errorf("reading pages: %w", context.Cause(ctx))
	}
}

// wait waits until there is room for another page.
func (r *pageRange) wait(ctx context.Context) error {
	for r.held.Load() > roomAhead {
		select {
		case <-r.freed:
		case <-ctx.Done():
			return fmt.Errorf("reading pages: %w", context.Cause(ctx))
		}
	}
	return nil
}

// take returns the next page, or false if there is none.
func (r *pageRange) take() (*page, bool) {
	p, more := <-r.pages
	if !more {
		return nil, false
	}
	r.held.Add(-p.size())
	select {
	case r.freed <- struct{}{}:
	default: // it was already notified
	}
	return p, true
}

// abandon kills a program whose output is no longer needed. It returns the error why.
func abandon(p *program, why error) error {
	_ = p.cmd.Process.Kill() // the program may have exited already
	_ = p.cmd.Wait()         // it was killed
	return why
}

// rangeReader reads ranges with a few concurrent processes, one for each range.
type rangeReader struct {
	path    string
	spare   sync.Pool
	slots   chan struct{}
	reading sync.WaitGroup
}

func newRangeReader(path string) *rangeReader {
	return &rangeReader{path: path, slots: make(chan struct{}, min(runtime.GOMAXPROCS(0), maxProcesses))}
}

// begin starts to read a range when a slot is free. It returns nil if ctx ends first.
func (r *rangeReader) begin(ctx context.Context, first, last int) *pageRange {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	part := newRange(first, last)
	r.reading.Go(func() {
		defer func() { <-r.slots }()
		part.read(ctx, r.path, &r.spare)
	})
	return part
}

// beginAll starts to read all pages from first to last, in ranges. A range never waits for a later
// range.
func (r *rangeReader) beginAll(ctx context.Context, first, last int) <-chan *pageRange {
	parts := make(chan *pageRange, cap(r.slots))
	r.reading.Go(func() {
		defer close(parts)
		for ; first <= last; first += rangePages {
			part := r.begin(ctx, first, min(first+rangePages-1, last))
			if part == nil {
				return
			}
			select {
			case parts <- part:
			case <-ctx.Done():
				return
			}
		}
	})
	return parts
}

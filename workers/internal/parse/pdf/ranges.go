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
	// firstPages is the number of pages that are read before the total number of pages is known.
	// For a document with fewer pages, one process suffices.
	firstPages = 16
	// rangePages is the number of pages in each further range. It is small enough that all
	// processes have work, and large enough that opening the document for each range costs little.
	rangePages = 32
	// maxProcesses is the maximum number of processes that read one document simultaneously. It is
	// small because other documents are being read at the same time.
	maxProcesses = 4
	// roomAhead limits the bytes of a range that wait in memory until earlier ranges are written.
	// While more bytes are in memory, the process that reads the range waits.
	roomAhead = 8 << 20 // bytes
)

// pageRange is a range of pages that is read by one process. One goroutine reads the pages, and the
// goroutine that writes the document takes them.
type pageRange struct {
	first, last int // last is 0 if the range ends with the document
	// pages contains the pages that were read and not taken. It is closed after the last page.
	pages chan *page
	held  atomic.Int64 // bytes of the pages in the channel pages
	// freed receives a value when a page was taken, for a reader that waits for memory.
	freed chan struct{}

	// The fields below are valid only after the channel pages is closed.
	lastRead int // last page read
	damaged  bool
	err      error
}

// newRange returns a range that nothing reads yet. Pages are numbered from 1.
func newRange(first, last int) *pageRange {
	return &pageRange{first: first, last: last, pages: make(chan *page, rangePages), freed: make(chan struct{}, 1)}
}

// read runs pdftotext for the range and closes the channel pages at the end. spare contains page
// objects for reuse. Errors are stored in r.err.
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
	// After any error except the end of the output, the rest of the output is not needed.
	if !errors.Is(err, io.EOF) {
		r.err = abandon(text, err)
		return
	}

	r.err = text.finish()
	// The program succeeded without printing a page.
	if r.err == nil && r.lastRead == 0 {
		r.err = errDamaged
	}
	r.damaged = text.damaged()
}

// scan reads the pages from the output of a process and passes them to the method put. The result
// is never nil: it is io.EOF after the last page, or the error that ended the scan earlier, for
// example because a page exceeds a limit or ctx has ended.
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

// put passes a page to the method take, and then waits while too many bytes of the range are in
// memory. It fails if ctx ends.
func (r *pageRange) put(ctx context.Context, p *page) error {
	r.held.Add(p.size())
	select {
	case r.pages <- p:
		return r.wait(ctx)
	case <-ctx.Done():
		return fmt.Errorf("reading pages: %w", context.Cause(ctx))
	}
}

// wait waits until the range may hold another page in memory. It fails if ctx ends.
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

// take returns the next page of the range. It waits for the page, and returns false if there is
// none. The page belongs to the caller.
func (r *pageRange) take() (*page, bool) {
	p, more := <-r.pages
	if !more {
		return nil, false
	}
	r.held.Add(-p.size())
	select {
	case r.freed <- struct{}{}:
	default: // a notification is already pending
	}
	return p, true
}

// abandon kills a program whose output is no longer needed. It returns the given reason.
func abandon(p *program, why error) error {
	_ = p.cmd.Process.Kill() // the program may have exited already
	_ = p.cmd.Wait()         // fails, because the process was killed
	return why
}

// rangeReader reads several ranges at the same time, each with one process. A value is used for one
// document.
type rangeReader struct {
	path string
	// spare contains page objects for reuse, because pages with many words need much memory.
	spare sync.Pool
	// slots contains a value for each running process. readers counts the goroutines that read.
	slots   chan struct{}
	readers sync.WaitGroup
}

// newRangeReader returns a reader of the document at path, with at most one process for each
// processor that this process may use.
func newRangeReader(path string) *rangeReader {
	return &rangeReader{path: path, slots: make(chan struct{}, min(runtime.GOMAXPROCS(0), maxProcesses))}
}

// begin starts to read a range as soon as a slot is free, and does not wait for its pages. It
// returns nil if ctx ends before a slot is free. The argument last is 0 if the range ends with the
// document.
func (r *rangeReader) begin(ctx context.Context, first, last int) *pageRange {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	part := newRange(first, last)
	r.readers.Go(func() {
		defer func() { <-r.slots }()
		part.read(ctx, r.path, &r.spare)
	})
	return part
}

// beginAll starts to read the pages from first to last, divided into ranges. Ranges are started in
// order, so a range never waits for a later one. The channel contains the ranges in order. The
// channel is closed after the last range, or when ctx ends.
func (r *rangeReader) beginAll(ctx context.Context, first, last int) <-chan *pageRange {
	parts := make(chan *pageRange, cap(r.slots))
	r.readers.Go(func() {
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

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
	// firstPages are read before it is known how many there are; a document of no more needs one process.
	firstPages = 16
	// rangePages are few enough for all processes to have something to do, and so many that opening the document over and over costs
	// little.
	rangePages = 32
	// maxProcesses read a document at a time: others are being read beside it.
	maxProcesses = 4
	// roomAhead is how much of a range is kept in memory before its turn comes; its process waits then.
	roomAhead = 8 << 20 // bytes
)

// pageRange is pages that a process of their own reads, and hands on in their order.
type pageRange struct {
	first, last int // last: 0 for the document's end
	pages       chan *page
	held        atomic.Int64 // bytes of what waits in pages
	freed       chan struct{}

	// Known once pages is closed.
	told    int // the last page that was
	damaged bool
	err     error
}

func newRange(first, last int) *pageRange {
	return &pageRange{first: first, last: last, pages: make(chan *page, rangePages), freed: make(chan struct{}, 1)}
}

// read has a process read the pages; spare are those to be used again.
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
	if r.err == nil && r.told == 0 {
		r.err = errDamaged
	}
	r.damaged = text.damaged()
}

// scan hands on what a process prints, until that ends.
func (r *pageRange) scan(ctx context.Context, from *scanner, spare *sync.Pool) error {
	for {
		p, _ := spare.Get().(*page)
		if p == nil {
			p = &page{}
		}
		if err := from.next(p); err != nil {
			return err
		}
		r.told = p.number
		if err := r.put(ctx, p); err != nil {
			return err
		}
	}
}

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

// take gives the next page; false when there are no more.
func (r *pageRange) take() (*page, bool) {
	p, more := <-r.pages
	if !more {
		return nil, false
	}
	r.held.Add(-p.size())
	select {
	case r.freed <- struct{}{}:
	default: // it has been told already
	}
	return p, true
}

// abandon ends a program whose output nobody wants any more, and says why.
func abandon(p *program, why error) error {
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()         // it was killed
	return why
}

// rangeReader has ranges read by a few processes at a time, each by one of its own.
type rangeReader struct {
	path    string
	spare   sync.Pool
	slots   chan struct{}
	reading sync.WaitGroup
}

func newRangeReader(path string) *rangeReader {
	return &rangeReader{path: path, slots: make(chan struct{}, min(runtime.GOMAXPROCS(0), maxProcesses))}
}

// begin begins to read a range, as soon as it may; nil when ctx ends before.
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

// beginAll begins to read all from a page to the last, in their order: those in front never wait for those behind them.
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

package pdf

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// MIMEType is what is read.
const MIMEType = "application/pdf"

// Config says how PDFs are read.
type Config struct {
	Path  string // where the document lies, for poppler to open
	NoOCR bool   // images are not read, whether tesseract is there or not
	// CPU and Wall are what all of the reading may take; images are read until most of that is over. 0: without end.
	CPU, Wall time.Duration
}

// Reader reads PDFs with this configuration.
func Reader(c Config) parse.Reader {
	return func(ctx context.Context, _ parse.Input, out *parse.Writer) (document.Info, error) {
		ctx, stop := context.WithCancel(ctx)
		r := &reading{out: out, images: newImages(c), sizes: sizes{}, ranges: newRangeReader(c.Path)}
		defer r.ranges.reading.Wait()
		defer stop() // of what runs still when there is an error
		return r.read(ctx, c.Path)
	}
}

const (
	// ahead is how many pages are looked at before the first is told, unless they have enough text to know the body's size from.
	ahead      = 5
	enoughText = 4000 // bytes
)

// reading is that of one document.
type reading struct {
	out     *parse.Writer
	images  *images
	ranges  *rangeReader
	sizes   sizes
	seen    int     // bytes of text
	waiting []*page // read, and not told yet
	last    int     // page that was read
	damaged bool
}

// about is what pdfinfo says of a document.
type about struct {
	pages int
	title string
}

func (r *reading) read(ctx context.Context, path string) (document.Info, error) {
	asked := make(chan about, 1)
	go func() { asked <- ask(ctx, path) }()
	beginning, stop := context.WithCancel(ctx)
	defer stop()
	first := r.ranges.begin(beginning, 1, firstPages)
	known := <-asked
	if known.pages > 0 {
		if err := r.out.Pages(known.pages); err != nil {
			return document.Info{}, err
		}
	}
	if known.pages == 0 { // then one process reads them all, as many as they are
		stop()
		first = r.ranges.begin(ctx, 1, 0)
	}
	if first == nil {
		return document.Info{}, fmt.Errorf("reading pages: %w", context.Cause(ctx))
	}
	if err := r.all(ctx, first, known.pages); err != nil {
		return document.Info{}, err
	}
	info := document.Info{Title: known.title, Pages: r.last, Notes: r.images.notes()}
	if r.damaged {
		info.Notes = append(info.Notes, "The file is damaged in places, so some of its text may be missing.")
	}
	return info, r.images.verdict(r.out.Empty())
}

// all tells all pages, the first range and those behind it.
func (r *reading) all(ctx context.Context, first *pageRange, pages int) error {
	others := r.ranges.beginAll(ctx, firstPages+1, pages)
	if err := r.follow(ctx, first); err != nil {
		return err
	}
	for part := range others {
		if err := r.follow(ctx, part); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reading pages: %w", context.Cause(ctx))
	}
	return r.tell(ctx)
}

// follow tells the pages of a range.
func (r *reading) follow(ctx context.Context, part *pageRange) error {
	for p, more := part.take(); more; p, more = part.take() {
		if err := r.take(ctx, p); err != nil {
			return err
		}
	}
	r.last, r.damaged = max(r.last, part.told), r.damaged || part.damaged
	return part.err
}

// take takes a page. Pages are told once it is known what size their body has.
func (r *reading) take(ctx context.Context, p *page) error {
	r.sizes.add(p)
	r.seen += len(p.text)
	r.waiting = append(r.waiting, p)
	if r.seen < enoughText && len(r.waiting) < ahead {
		return nil
	}
	return r.tell(ctx)
}

// tell tells the pages that wait.
func (r *reading) tell(ctx context.Context) error {
	body := r.sizes.body()
	for _, p := range r.waiting {
		if err := r.out.Page(p.number); err != nil {
			return fmt.Errorf("emitting page %d: %w", p.number, err)
		}
		at := body
		if len(p.words) == 0 {
			if err := r.images.read(ctx, p); err != nil {
				return err
			}
			at = p.recognizedBody()
		}
		if err := tellPage(p, at, r.out.Put); err != nil {
			return fmt.Errorf("emitting page %d: %w", p.number, err)
		}
	}
	for _, p := range r.waiting {
		r.ranges.spare.Put(p)
	}
	r.waiting = r.waiting[:0]
	return nil
}

// aboutSize is more than pdfinfo says of an honest document.
const aboutSize = 64 << 10

// ask has pdfinfo say how many pages there are. What it cannot open, pdftotext cannot either, and that is asked why.
func ask(ctx context.Context, path string) (a about) {
	text, err := output(ctx, aboutSize, nil, "pdfinfo", "-enc", "UTF-8", path)
	if err != nil {
		return about{}
	}
	for l := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(l, ":")
		switch value = strings.TrimSpace(value); name {
		case "Title":
			a.title = value
		case "Pages":
			a.pages, _ = strconv.Atoi(value) // not a number is not known
		}
	}
	return a
}

package pdf

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		defer stop() // of what runs still when there is an error
		r := &reading{path: c.Path, out: out, images: newImages(c), sizes: sizes{}}
		return r.read(ctx)
	}
}

const (
	// ahead is how many pages are looked at before the first is told, unless they have enough text to know the body's size from.
	ahead      = 5
	enoughText = 4000 // bytes
)

// reading is that of one document.
type reading struct {
	path    string
	out     *parse.Writer
	images  *images
	sizes   sizes
	seen    int     // bytes of text
	waiting []*page // read, and not told yet
	spare   []*page // told, to be used again
}

// about is what pdfinfo says of a document.
type about struct {
	pages int
	title string
}

func (r *reading) read(ctx context.Context) (document.Info, error) {
	asked := make(chan about, 1)
	go func() { asked <- ask(ctx, r.path) }()
	text, err := start(ctx, nil, "pdftotext", "-bbox-layout", "-enc", "UTF-8", r.path, "-")
	if err != nil {
		return document.Info{}, err
	}
	from := newScanner(text.stdout)
	first := r.take()
	err = from.next(first)
	known := <-asked
	if known.pages > 0 {
		if err := r.out.Pages(known.pages); err != nil {
			return document.Info{}, abandon(text, err)
		}
	}
	if err == nil {
		err = r.pages(ctx, from, first)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return document.Info{}, abandon(text, err)
	}
	ended := text.finish()
	switch {
	case ended != nil:
		return document.Info{}, ended
	case from.read == 0 || errors.Is(err, io.ErrUnexpectedEOF):
		return document.Info{}, errDamaged
	}
	info := document.Info{Title: known.title, Pages: from.read, Notes: r.images.notes()}
	if text.damaged() {
		info.Notes = append(info.Notes, "The file is damaged in places, so some of its text may be missing.")
	}
	return info, r.images.verdict(r.out.Empty())
}

// abandon ends a program whose output nobody wants any more, and says why.
func abandon(p *program, why error) error {
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()         // it was killed
	return why
}

// pages tells all pages.
func (r *reading) pages(ctx context.Context, from *scanner, p *page) error {
	for {
		r.sizes.add(p)
		r.seen += len(p.text)
		r.waiting = append(r.waiting, p)
		if r.seen >= enoughText || len(r.waiting) >= ahead {
			if err := r.tell(ctx); err != nil {
				return err
			}
		}
		p = r.take()
		if err := from.next(p); err != nil {
			if errors.Is(err, io.EOF) {
				return r.tell(ctx)
			}
			return err
		}
	}
}

func (r *reading) take() *page {
	if n := len(r.spare); n > 0 {
		p := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return p
	}
	return &page{}
}

// tell tells the pages that wait.
func (r *reading) tell(ctx context.Context) error {
	body := r.sizes.body()
	for _, p := range r.waiting {
		if err := r.out.Page(p.number); err != nil {
			return fmt.Errorf("telling page %d: %w", p.number, err)
		}
		at := body
		if len(p.words) == 0 {
			if err := r.images.read(ctx, p); err != nil {
				return err
			}
			at = p.recognizedBody()
		}
		if err := tellPage(p, at, r.out.Put); err != nil {
			return fmt.Errorf("telling page %d: %w", p.number, err)
		}
	}
	r.spare = append(r.spare, r.waiting...)
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

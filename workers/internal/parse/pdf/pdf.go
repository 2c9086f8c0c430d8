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

// MIMEType is the MIME type of the documents that Reader reads.
const MIMEType = "application/pdf"

// Config configures a Reader. Path is required.
type Config struct {
	Path  string // path of the document's file, which poppler reads
	NoOCR bool   // if true, images are not read even if tesseract is installed
	// CPU and Wall are the time limits of the whole process; 0 means no limit. When most of either
	// limit is used up, no further images are read.
	CPU, Wall time.Duration
}

// Reader returns a reader of PDFs. It ignores the content of its input and reads the file c.Path,
// so it is usable for one document. When it returns, none of its programs is running.
func Reader(c Config) parse.Reader {
	return func(ctx context.Context, _ parse.Input, out *parse.Writer) (document.Info, error) {
		ctx, stop := context.WithCancel(ctx)
		r := &documentReader{out: out, images: newImages(c), sizes: sizes{}, ranges: newRangeReader(c.Path)}
		defer r.ranges.readers.Wait()
		defer stop() // if reading fails, end the programs that are still running
		return r.read(ctx, c.Path)
	}
}

const (
	// ahead is the number of pages from which the body height is determined before the first page
	// is written. Fewer pages suffice if they contain enoughText bytes.
	ahead      = 5
	enoughText = 4000 // bytes
)

// documentReader is the state while one document is read. It belongs to one call of a Reader.
type documentReader struct {
	out    *parse.Writer
	images *images
	ranges *rangeReader
	// sizes counts the text of all pages that were read so far.
	sizes   sizes
	seen    int     // bytes of text read
	waiting []*page // pages that have been read but not written
	last    int     // number of the last page that was read
	// damaged is true if poppler repaired a part of the file.
	damaged bool
}

// pdfInfo is the information that pdfinfo prints about a document. pages is 0 if the number is
// unknown.
type pdfInfo struct {
	pages int
	title string
}

// read reads the document at path. It begins with the first pages before the number of pages is
// known, so that pdfinfo and pdftotext run at the same time.
//
// The error is the error of the first range that failed, an error of ctx, a failure of the limits,
// or the reason why the document has no text.
func (r *documentReader) read(ctx context.Context, path string) (document.Info, error) {
	asked := make(chan pdfInfo, 1)
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

	if known.pages == 0 { // if the number of pages is unknown, one process reads all pages
		stop()
		first = r.ranges.begin(ctx, 1, 0)
	}

	if first == nil {
		return document.Info{}, fmt.Errorf("reading pages: %w", context.Cause(ctx))
	}

	if err := r.all(ctx, first, known.pages); err != nil {
		return document.Info{}, err
	}

	// The notes are complete only now, after the last page.
	info := document.Info{Title: known.title, Pages: r.last, Notes: r.images.notes()}
	if r.damaged {
		info.Notes = append(info.Notes, "The file is damaged in places, so some of its text may be missing.")
	}
	return info, r.images.noTextFailure(r.out.Empty())
}

// all writes all pages in order. It begins with the argument first, a range that is already being
// read, and divides the remaining pages into further ranges. pages is the total number of pages, or
// 0 if the range first contains all pages.
func (r *documentReader) all(ctx context.Context, first *pageRange, pages int) error {
	others := r.ranges.beginAll(ctx, firstPages+1, pages)
	if err := r.follow(ctx, first); err != nil {
		return err
	}

	for part := range others {
		if err := r.follow(ctx, part); err != nil {
			return err
		}
	}

	// If ctx has ended, the channel may have been closed before the last range.
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reading pages: %w", context.Cause(ctx))
	}
	return r.flush(ctx)
}

// follow writes the pages of a range while they are being read. It returns the error of the range,
// after the pages before the error were written.
func (r *documentReader) follow(ctx context.Context, part *pageRange) error {
	for p, more := part.take(); more; p, more = part.take() {
		if err := r.take(ctx, p); err != nil {
			return err
		}
	}
	r.last, r.damaged = max(r.last, part.lastRead), r.damaged || part.damaged
	return part.err
}

// take adds a page to the waiting pages. When the body height is known, it writes the waiting
// pages. The first pages wait, because headings are recognized by their height relative to the body
// height.
func (r *documentReader) take(ctx context.Context, p *page) error {
	r.sizes.add(p)
	r.seen += len(p.text)
	r.waiting = append(r.waiting, p)
	if r.seen < enoughText && len(r.waiting) < ahead {
		return nil
	}
	return r.flush(ctx)
}

// flush writes all waiting pages and returns the page objects for reuse.
func (r *documentReader) flush(ctx context.Context) error {
	body := r.sizes.body()
	for _, p := range r.waiting {
		if err := r.out.Page(p.number); err != nil {
			return fmt.Errorf("emitting page %d: %w", p.number, err)
		}
		at := body
		// A page without words may be an image.
		if len(p.words) == 0 {
			if err := r.images.read(ctx, p); err != nil {
				return err
			}
			at = p.recognizedBody()
		}
		if err := writePage(p, at, r.out.Put); err != nil {
			return fmt.Errorf("emitting page %d: %w", p.number, err)
		}
	}

	for _, p := range r.waiting {
		r.ranges.spare.Put(p)
	}
	r.waiting = r.waiting[:0]
	return nil
}

// maxInfo is the maximum number of bytes that are read from pdfinfo. The output for an ordinary
// document is much shorter.
const maxInfo = 64 << 10

// ask runs pdfinfo and returns the number of pages and the title. Errors are ignored: if pdfinfo
// cannot open the document, pdftotext cannot open it either and reports the reason.
func ask(ctx context.Context, path string) (a pdfInfo) {
	text, err := output(ctx, maxInfo, nil, "pdfinfo", "-enc", "UTF-8", path)
	if err != nil {
		return pdfInfo{}
	}

	for l := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(l, ":")
		switch value = strings.TrimSpace(value); name {
		case "Title":
			a.title = value
		case "Pages":
			a.pages, _ = strconv.Atoi(value) // 0 means unknown
		}
	}
	return a
}

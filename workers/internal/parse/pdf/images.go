package pdf

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/workers/internal/document"
)

const (
	// ocrDPI is the resolution for recognition, in pixels per inch. The actual resolution is lower
	// for large pages.
	ocrDPI     = 300
	ocrPixels  = 3500 // pixels of the longer side of an image
	lookPixels = 300  // pixels of the longer side of the image that is examined to find blank pages
	// maxLooks is the maximum number of pages that are examined for blankness without tesseract.
	maxLooks = 40
	// ocrShare is the fraction of the time limit after which no further images are read.
	ocrShare = 0.75
	// maxLanguages is the maximum number of languages, because tesseract loads a model for each.
	maxLanguages = 8
	// tsvSize is the maximum number of bytes of tesseract's output for a page.
	tsvSize = 16 << 20
	// minConfidence is the minimum confidence, out of 100, of a recognized word.
	minConfidence = 20
	// recognizedScale is the factor that enlarges the body height (the height of ordinary text) of
	// recognized pages. On such pages, the height of a line is less precise, because it depends on
	// the letters in the line.
	recognizedScale = 1.25
)

// images recognizes text in the pictures of pages from whose text layer no words were read. It
// records which pages it could not read.
//
// A value is used for one document. It reads pages one after the other, in order. A page that
// cannot be read is not an error, because the document's other pages are still useful. The method
// notes mentions such pages.
type images struct {
	config Config
	began  time.Time
	// asked is true if the installed languages are known.
	asked bool
	langs string // languages in the form that tesseract expects; "" if images are not read
	// looks is the number of pages that were examined for blankness.
	looks  int
	blank  []int // pages that are empty, or on which no words were recognized
	unread []int // pages that were not read because tesseract is not installed
	late   []int // pages that were not read because the time was used up
	failed []int // pages for which pdftoppm or tesseract failed
	// recognized lists the pages whose text was recognized.
	recognized []int
	// scratch is the temporary folder for rendered pages, or "" if no page was rendered.
	scratch string
}

// newImages returns the images of a document. The time limit begins with this call.
func newImages(c Config) *images { return &images{config: c, began: time.Now()} }

// read adds recognized text to a page whose text layer has no words. It returns only the error of
// ctx. A page that could not be read still has no words, and its number is recorded.
func (m *images) read(ctx context.Context, p *page) error {
	// Without tesseract, a blank page is still distinguished from a page with an image. Only a page
	// with an image is mentioned in a note.
	if !m.available(ctx) {
		if m.looks++; m.looks <= maxLooks {
			image, _ := m.render(ctx, p, lookPixels)
			if image != nil && uniform(image) {
				m.blank = append(m.blank, p.number)
				return ctx.Err()
			}
		}
		m.unread = append(m.unread, p.number)
		return ctx.Err()
	}
	// After the first page that was not read in time, no page is read, so that only pages at the
	// end are missing.
	if m.late != nil || m.outOfTime() {
		m.late = append(m.late, p.number)
		return ctx.Err()
	}

	// The page's size is in points, of which 72 are an inch.
	longest := max(p.width, p.height, 1)
	pixels := int(min(ocrPixels, math.Ceil(longest*ocrDPI/72)))

	image, path := m.render(ctx, p, pixels)
	switch {
	case image == nil:
		m.failed = append(m.failed, p.number)
	case uniform(image):
		m.blank = append(m.blank, p.number)
	default:
		m.recognize(ctx, p, path, longest/float64(pixels))
	}
	return ctx.Err()
}

// available reports whether tesseract can be used with at least one language. It checks this only
// once.
func (m *images) available(ctx context.Context) bool {
	if m.asked {
		return m.langs != ""
	}
	m.asked = true
	if m.config.NoOCR {
		return false
	}
	if _, err := exec.LookPath("tesseract"); err != nil {
		return false
	}

	text, err := output(ctx, maxInfo, nil, "tesseract", "--list-langs")
	if err != nil {
		return false
	}
	m.langs = languages(string(text))
	return m.langs != ""
}

// language matches the names of tesseract's languages, such as "eng" and "chi_sim".
var language = regexp.MustCompile(`^[a-z]{3}(?:_[A-Za-z]+)*$`)

// languages converts the list of languages that tesseract prints to the value of tesseract's
// language option, such as "eng+deu". English comes first, because tesseract prefers the first
// language. "osd" and "equ" are not languages.
func languages(list string) string {
	var names []string
	for name := range strings.FieldsSeq(list) {
		if language.MatchString(name) && name != "osd" && name != "equ" {
			names = append(names, name)
		}
	}

	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == "eng":
			return -1
		case b == "eng":
			return 1
		}
		return strings.Compare(a, b)
	})
	return strings.Join(names[:min(len(names), maxLanguages)], "+")
}

// outOfTime reports whether more than the fraction ocrShare of the time limit is used up. The rest
// of the time is needed to write the document. Both elapsed time and processor time count.
func (m *images) outOfTime() bool {
	if limit := m.config.Wall; limit > 0 && time.Since(m.began) > part(limit) {
		return true
	}
	limit := m.config.CPU
	return limit > 0 && cpuTime() > part(limit)
}

// part returns the fraction ocrShare of a duration.
func part(d time.Duration) time.Duration { return time.Duration(ocrShare * float64(d)) }

// render renders a page as a grey image whose longer side has the given number of pixels. It
// returns the image and the path of the image's file. The next call overwrites the file. If
// rendering fails, image is nil.
func (m *images) render(ctx context.Context, p *page, pixels int) (image []byte, path string) {
	if m.scratch == "" {
		dir, err := os.MkdirTemp("", "pages-")
		if err != nil {
			return nil, ""
		}
		m.scratch = dir
	}

	n := strconv.Itoa(p.number)
	name := filepath.Join(m.scratch, "page")
	args := []string{"-f", n, "-l", n, "-scale-to", strconv.Itoa(pixels), "-gray", "-singlefile", m.config.Path, name}
	// pdftoppm writes to a file, because tesseract reads the image from a file.
	if _, err := output(ctx, 0, nil, "pdftoppm", args...); err != nil {
		return nil, ""
	}

	path = name + ".pgm"
	image, err := os.ReadFile(path)
	if err != nil {
		return nil, ""
	}
	return image, path
}

// uniform reports whether all pixels of a PGM image have the same brightness, so that the page is
// blank. An image without a complete header or without pixels counts as blank.
func uniform(image []byte) bool {
	for range 3 { // skip the three header lines: kind, size and depth
		_, rest, found := bytes.Cut(image, []byte("\n"))
		if !found {
			return true
		}
		image = rest
	}
	return len(image) == 0 || bytes.Count(image, image[:1]) == len(image)
}

// recognize runs tesseract on the image of a page and adds the words to the page. The argument
// pixel is the size of a pixel in points. recognize records the page as recognized, blank or
// failed.
func (m *images) recognize(ctx context.Context, p *page, image string, pixel float64) {
	// Without this limit, tesseract would start a thread for each processor.
	dpi := strconv.Itoa(int(72/pixel + 0.5))
	text, err := output(ctx, tsvSize, []string{"OMP_THREAD_LIMIT=1"}, "tesseract", image, "stdout", "-l", m.langs, "--dpi", dpi, "tsv")
	if err == nil {
		err = p.fill(bytes.NewReader(text), pixel)
	}
	if err != nil {
		m.failed = append(m.failed, p.number)
		return
	}

	if len(p.words) == 0 {
		m.blank = append(m.blank, p.number)
		return
	}
	m.recognized = append(m.recognized, p.number)
}

// fill adds the words that tesseract has recognized on a page to this page. The argument pixel is
// the size of a pixel in points. The height of a word depends on its letters, so each word gets the
// height of its line.
func (p *page) fill(tsv io.Reader, pixel float64) error {
	width, height := p.width, p.height
	// The scanner resets the page and numbers it from 1, so the page's own values are restored.
	number := p.number
	if err := newScanner(tsv, 1, pixel).next(p); err != nil {
		return err
	}
	p.number, p.width, p.height, p.logical = number, width, height, true
	for _, l := range p.lines {
		for i := l.first; i < l.end; i++ {
			p.words[i].y0, p.words[i].y1 = l.y0, l.y1
		}
	}
	return nil
}

// recognizedBody returns the height of ordinary text on a recognized page, for writePage. The
// document's body height is not used, because heights of recognized lines are less precise.
func (p *page) recognizedBody() float64 {
	own := sizes{}
	own.add(p)
	return recognizedScale * own.body()
}

// notes returns sentences for the person who uploaded the document. They mention pages that were
// not read, or whose text may contain errors. notes returns nil if all pages had text.
func (m *images) notes() (list []string) {
	for _, n := range []struct {
		pages     []int
		one, many string
	}{
		{m.blank, "has no text", "have no text"},
		{m.unread, "is an image; without tesseract its text was not read", "are images; without tesseract their text was not read"},
		{m.late, "is an image; there was no time to recognize its text", "are images; there was no time to recognize their text"},
		{m.failed, "is an image whose text could not be read", "are images whose text could not be read"},
		{
			m.recognized, "is an image: its text was recognized and may contain errors",
			"are images: their text was recognized and may contain errors",
		},
	} {
		switch len(n.pages) {
		case 0:
		case 1:
			list = append(list, fmt.Sprintf("Page %d %s.", n.pages[0], n.one))
		default:
			list = append(list, fmt.Sprintf("Pages %s %s.", ranges(n.pages), n.many))
		}
	}
	return list
}

// noTextFailure removes the temporary images. The argument empty is true if the whole document has
// no text. In that case, noTextFailure returns an error that states the reason; otherwise it
// returns nil. It is called once, after the last page.
func (m *images) noTextFailure(empty bool) error {
	if m.scratch != "" {
		_ = os.RemoveAll(m.scratch) // on an error, the files are removed together with the sandbox
	}
	switch {
	case !empty:
		return nil
	case len(m.unread) > 0:
		return &document.Failure{Code: document.NoOCR, Message: "The PDF consists of images, and text recognition is not installed. " +
			"Install tesseract-ocr on the workers' hosts and retry, or send a PDF with text."}
	case len(m.late) > 0:
		return errCPU
	default:
		return &document.Failure{Code: document.NoText, Message: "The PDF has no text, not even in its images."}
	}
}

// ranges formats page numbers, which are in ascending order, as a text such as "3, 5 to 9 and 12".
// It lists at most 30 numbers and ranges.
func ranges(pages []int) string {
	var parts []string
	for i := 0; i < len(pages); {
		j := i
		for j+1 < len(pages) && pages[j+1] == pages[j]+1 {
			j++
		}
		switch j - i {
		case 0:
			parts = append(parts, strconv.Itoa(pages[i]))
		case 1:
			parts = append(parts, strconv.Itoa(pages[i]), strconv.Itoa(pages[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d to %d", pages[i], pages[j]))
		}
		i = j + 1
	}

	const maximum = 30
	if len(parts) > maximum {
		return strings.Join(parts[:maximum], ", ") + " and more"
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

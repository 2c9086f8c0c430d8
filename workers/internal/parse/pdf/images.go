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
	ocrDPI     = 300
	ocrPixels  = 3500 // of the longer side
	lookPixels = 300  // that a page is looked at with, to see whether there is anything on it
	maxLooks   = 40
	// ocrShare is the part of the time for all after which no further image is read.
	ocrShare     = 0.75
	maxLanguages = 8
	tsvSize      = 16 << 20
	// leastConfidence is the least confidence, of 100, of a word.
	leastConfidence = 20
	// recognizedBody makes heights count for less, for those of recognized lines depend on which letters are in them.
	recognizedScale = 1.25
)

// images reads the pages that have no words, and notes what came of them.
type images struct {
	config     Config
	began      time.Time
	asked      bool
	langs      string // "" when images are not read
	looks      int
	blank      []int // pages on which nothing is, or no words
	unread     []int // for want of tesseract
	late       []int // for want of time
	failed     []int // tesseract or pdftoppm gave up
	recognized []int
	scratch    string
}

func newImages(c Config) *images { return &images{config: c, began: time.Now()} }

// read fills a page without words with those that are recognized on it.
func (m *images) read(ctx context.Context, p *page) error {
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
	if m.late != nil || m.spent() {
		m.late = append(m.late, p.number)
		return ctx.Err()
	}
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

// available reports whether there is something to read images with; it asks once.
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
	text, err := output(ctx, aboutSize, nil, "tesseract", "--list-langs")
	if err != nil {
		return false
	}
	m.langs = languages(string(text))
	return m.langs != ""
}

var language = regexp.MustCompile(`^[a-z]{3}(?:_[A-Za-z]+)*$`)

// languages are those that tesseract lists, as it wants to be told them. English comes first, for it guesses by the first.
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

// spent reports whether most of the time is over.
func (m *images) spent() bool {
	if limit := m.config.Wall; limit > 0 && time.Since(m.began) > part(limit) {
		return true
	}
	limit := m.config.CPU
	return limit > 0 && cpuTime() > part(limit)
}

func part(d time.Duration) time.Duration { return time.Duration(ocrShare * float64(d)) }

// render makes an image of a page, in grey; nil when that fails.
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

// uniform reports whether all of an image (PGM) has one shade.
func uniform(image []byte) bool {
	for range 3 { // its kind, size and depth are lines
		_, rest, found := bytes.Cut(image, []byte("\n"))
		if !found {
			return true
		}
		image = rest
	}
	return len(image) == 0 || bytes.Count(image, image[:1]) == len(image)
}

// recognize has tesseract read the image of a page; a pixel is so many points.
func (m *images) recognize(ctx context.Context, p *page, image string, pixel float64) {
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

// fill adds recognized words to a page. Each gets the height of its line, because that of a word depends on its letters.
func (p *page) fill(tsv io.Reader, pixel float64) error {
	width, height := p.width, p.height
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

// recognizedBody is the height of the body's lines on a page that was recognized, as tellPage takes it.
func (p *page) recognizedBody() float64 {
	own := sizes{}
	own.add(p)
	return recognizedScale * own.body()
}

// notes says what is missing, and what may be wrong.
func (m *images) notes() (list []string) {
	for _, n := range []struct {
		pages     []int
		one, many string
	}{
		{m.blank, "has no text", "have no text"},
		{m.unread, "is an image; without tesseract its text was not read", "are images; without tesseract their text was not read"},
		{m.late, "is an image; there was no time to recognize its text", "are images; there was no time to recognize their text"},
		{m.failed, "is an image whose text could not be read", "are images whose text could not be read"},
		{m.recognized, "is an image: its text was recognized, and may have errors", "are images: their text was recognized, and may have errors"},
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

// verdict is the failure of a document without any text.
func (m *images) verdict(empty bool) error {
	if m.scratch != "" {
		_ = os.RemoveAll(m.scratch) // what is left goes with the sandbox
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

// ranges writes page numbers as "3, 5 to 9 and 12".
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

//go:build linux

package extract

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit"
	plainpdf "parley/shared/testkit/pdf"
	"parley/workers/internal/document"
	"parley/workers/internal/parse/pdf/pdftest"
)

// outcomes maps malicious PDFs to the failures that they may cause.
var outcomes = map[string][]document.Code{
	"a page tree that is its own child":    {document.NoText},
	"two trees, each a child of the other": {document.Damaged},
	"an object that refers to itself":      {document.Damaged},
	"a form that draws itself":             {},
	"contents that contain themselves":     {document.NoText},
	"a length that is its own stream":      {document.NoText},
	"an endless chain of previous tables":  {},
	"arrays in arrays":                     {document.NoText},
	"dictionaries in dictionaries":         {document.NoText},
	"a page tree of 1,000 levels":          {},
	"forms of forms":                       {document.LimitReached},
	"a decompression bomb":                 {document.LimitReached},
	"a nested decompression bomb":          {document.LimitReached},
	"an image of several terabytes":        {document.NoOCR, document.LimitReached}, // depends on which occurs first
	"a page several kilometres wide":       {document.NoOCR},
	"only its head":                        {document.Damaged},
	"its beginning":                        {document.Damaged},
	"noise":                                {document.Damaged},
	"a million null pages":                 {document.Damaged},
}

func TestHostilePDFsEndWithAReason(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("NOT TESTED under the race detector: the detector's own memory exceeds the limit")
	}
	e := open(t, Config{NoOCR: true})
	all := pdftest.Hostile()
	if len(all) != len(outcomes) {
		t.Errorf("%d files, %d outcomes", len(all), len(outcomes))
	}
	for name, content := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Limits{CPU: 2 * time.Second, Wall: time.Minute, Memory: 256 << 20, Files: 64 << 20}
			want, known := outcomes[name]
			if slices.Equal(want, []document.Code{document.LimitReached}) {
				l.CPU /= 2 // the reader uses all of it
			}
			if len(want) == 0 && known {
				d, err := read(t.Context(), e, content, l)
				if err != nil || len(d.blocks) == 0 || !strings.Contains(d.blocks[0].Text, "Some words stand here.") {
					t.Errorf("%+v, %v", d, err)
				}
				return
			}
			if failure := fails(t, e, content, l); !slices.Contains(want, failure.Code) || failure.Retry {
				t.Errorf("got %+v", failure)
			}
		})
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	e := open(t, Config{NoOCR: true})
	if failure := fails(t, e, pdftest.Encrypted("secret", "owner", "Some words stand here."), Limits{}); failure.Code != document.Encrypted {
		t.Errorf("got %+v", failure)
	}
	d, err := read(t.Context(), e, pdftest.Encrypted("", "owner", "Some words stand here."), Limits{})
	if err != nil || len(d.blocks) != 1 || d.blocks[0].Text != "Some words stand here." {
		t.Errorf("which everyone may open: %+v, %v", d, err)
	}
}

func manyPages(n int) []byte {
	pages := make([]plainpdf.Page, n)
	for i := range pages {
		pages[i] = plainpdf.Page{Heading: fmt.Sprintf("Section %d", i+1), Paragraphs: []string{
			fmt.Sprintf("On page %d stands the word word%d, and some more text so that the page has a body to tell headings from.", i+1, i+1),
		}}
	}
	return plainpdf.Write(pages...)
}

func TestPagesAreToldOneByOne(t *testing.T) {
	t.Parallel()
	d, err := read(t.Context(), open(t, Config{}), manyPages(30), Limits{})
	if err != nil || d.pages != 30 || len(d.done) != 30 || d.info.Pages != 30 || len(d.info.Notes) > 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	if !slices.IsSorted(d.done) {
		t.Errorf("done: %v", d.done)
	}
	for i := range 30 {
		heading, text := d.blocks[2*i], d.blocks[2*i+1]
		if heading.Kind != document.Heading || heading.Page != i+1 || heading.Text != fmt.Sprintf("Section %d", i+1) {
			t.Errorf("heading: %+v", heading)
		}
		if text.Kind != document.Paragraph || text.Page != i+1 || !strings.Contains(text.Text, fmt.Sprintf("word%d,", i+1)) || text.Box == nil {
			t.Errorf("text: %+v", text)
		}
	}
}

func TestPagesBeyondTheCap(t *testing.T) {
	t.Parallel()
	began := time.Now()
	failure := fails(t, open(t, Config{}), manyPages(300), Limits{Pages: 299})
	if failure.Code != document.TooManyPages || !strings.Contains(failure.Message, "300") {
		t.Errorf("got %+v after %s", failure, time.Since(began))
	}
	if _, err := read(t.Context(), open(t, Config{}), manyPages(20), Limits{Pages: 20}); err != nil {
		t.Errorf("maximum number of pages: %v", err)
	}
}

func TestTextBeyondTheCap(t *testing.T) {
	t.Parallel()
	if failure := fails(t, open(t, Config{}), manyPages(50), Limits{Text: 2000}); failure.Code != document.TooLarge {
		t.Errorf("text: %+v", failure)
	}
	if failure := fails(t, open(t, Config{}), manyPages(50), Limits{Blocks: 50}); failure.Code != document.TooLarge {
		t.Errorf("blocks: %+v", failure)
	}
}

func TestOtherFormatsAreReadToo(t *testing.T) {
	t.Parallel()
	e := open(t, Config{})
	d, err := read(t.Context(), e, []byte("# A title\n\nA paragraph, which is not long.\n"), Limits{})
	if err != nil || len(d.blocks) == 0 || d.info.MIMEType == "" || d.info.Pages != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if failure := fails(t, e, []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00"), Limits{}); failure.Code != document.Unsupported {
		t.Errorf("a program: %+v", failure)
	}
}

func TestGVisor(t *testing.T) {
	t.Parallel()
	e := openGVisor(t)
	d, err := read(t.Context(), e, manyPages(5), Limits{})
	if err != nil || d.pages != 5 || len(d.blocks) != 10 || len(d.done) != 5 {
		t.Fatalf("%+v, %v", d, err)
	}
	t.Logf("first event after %s, all after %s", d.first, d.took)
	if failure := fails(t, e, pdftest.Encrypted("secret", "owner", "Some words."), Limits{}); failure.Code != document.Encrypted {
		t.Errorf("got %+v", failure)
	}
	bomb := pdftest.Hostile()["a decompression bomb"]
	if failure := fails(t, e, bomb, Limits{CPU: 2 * time.Second, Wall: 2 * time.Minute, Memory: 512 << 20}); failure.Code != document.LimitReached {
		t.Errorf("a bomb: %+v", failure)
	}
	failure := fails(t, e, []byte(spell+"takes memory"), Limits{Memory: 256 << 20})
	if failure.Code != document.LimitReached {
		t.Errorf("memory: %+v", failure)
	}
}

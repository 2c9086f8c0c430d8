package formats_test

import (
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// FuzzParse parses arbitrary content with file names of all formats. The result must be clean text
// or a failure, and never a panic.
func FuzzParse(f *testing.F) {
	for name, content := range samples(f) {
		f.Add(name, content)
	}
	f.Add("a.docx", compoundFile("WordDocument"))
	f.Add("a.md", []byte("| a |\n|---|\n| b |\n\n> - 1. x\n"))
	f.Add("a.csv", []byte("a;\"b\n\"\";c\"\n"))
	f.Add("a.json", []byte(`[{"a":[{"b":1},2]},3]{"c":null}`))
	f.Add("a.html", []byte("<table><tr><td rowspan=3 colspan=2>x<tr><td><li>y</table>"))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		began := time.Now()
		r := read(t, parse.Input{Name: name, MIMEType: "text/plain; charset=utf-7", Content: content, Limits: parse.Limits{Pages: 50, Blocks: 5000, Text: 1 << 20}})
		if took := time.Since(began); took > maxTime {
			t.Fatalf("took %v", took)
		}
		if r.err != nil {
			var failure *document.Failure
			if !errors.As(r.err, &failure) || failure.Code == "" || failure.Message == "" {
				t.Fatalf("ended in %v", r.err)
			}
			return
		}
		page := 0
		for _, b := range r.blocks {
			if b.Text == "" || len(b.Text) > parse.MaxBlock || !utf8.ValidString(b.Text) || !norm.NFC.IsNormalString(b.Text) || parse.Clean(b.Text) != b.Text {
				t.Fatalf("block %q is not clean", b.Text)
			}
			if b.Page < page || b.Page > 50 {
				t.Fatalf("page %d after page %d", b.Page, page)
			}
			page = b.Page
		}
	})
}

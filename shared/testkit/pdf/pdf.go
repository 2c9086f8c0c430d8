package pdf

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	width, height = 595, 842 // A4, in points
	margin        = 56
	leading       = 14
	perLine       = 88 // maximum characters of a line, so that 10-point text always fits between the margins
)

// Page is the text of one page in ASCII: a heading, which may be empty, and paragraphs.
type Page struct {
	Heading    string
	Paragraphs []string
}

// Write returns a PDF of these pages, in Helvetica. It panics if a page has more
// than about 50 lines.
func Write(pages ...Page) []byte {
	var w writer
	w.buf.WriteString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	kids := make([]string, len(pages))
	const firstPage = 4 // number of the first page's object, after the catalog, the page tree and the font
	for i := range pages {
		kids[i] = fmt.Sprintf("%d 0 R", firstPage+2*i)
	}

	w.object("<< /Type /Catalog /Pages 2 0 R >>")
	w.object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages)))
	w.object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, p := range pages {
		w.object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>",
			width, height, firstPage+2*i+1))
		content := p.content()
		w.object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content))
	}

	return w.end()
}

// content returns the operators that draw a page.
func (p Page) content() string {
	var b strings.Builder
	y := height - margin
	b.WriteString("BT\n")
	if p.Heading != "" {
		fmt.Fprintf(&b, "/F1 18 Tf 1 0 0 1 %d %d Tm (%s) Tj\n", margin, y, escaped(p.Heading))
		y -= 2 * leading
	}

	b.WriteString("/F1 10 Tf\n")
	for _, paragraph := range p.Paragraphs {
		for _, line := range lines(paragraph) {
			fmt.Fprintf(&b, "1 0 0 1 %d %d Tm (%s) Tj\n", margin, y, escaped(line))
			y -= leading
		}
		y -= leading / 2
	}

	if y < margin/2 {
		panic(fmt.Sprintf("pdf: the page %q has too many lines", p.Heading))
	}

	b.WriteString("ET")
	return b.String()
}

// lines splits a paragraph into lines at spaces.
func lines(text string) (out []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > perLine {
			out, line = append(out, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(out, line)
}

var escape = strings.NewReplacer(`\`, `\\`, `(`, `\(`, `)`, `\)`)

func escaped(text string) string { return escape.Replace(text) }

// writer writes the objects of a document. It numbers the objects in the order in which it writes
// them.
type writer struct {
	buf     bytes.Buffer
	offsets []int
}

func (w *writer) object(body string) {
	w.offsets = append(w.offsets, w.buf.Len())
	fmt.Fprintf(&w.buf, "%d 0 obj\n%s\nendobj\n", len(w.offsets), body)
}

func (w *writer) end() []byte {
	at := w.buf.Len()
	fmt.Fprintf(&w.buf, "xref\n0 %d\n0000000000 65535 f \n", len(w.offsets)+1)
	for _, offset := range w.offsets {
		fmt.Fprintf(&w.buf, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&w.buf, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(w.offsets)+1, at)
	return w.buf.Bytes()
}

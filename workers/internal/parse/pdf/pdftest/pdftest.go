package pdftest

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
)

// File is a PDF that consists of raw objects, numbered from 1. The first object is the catalog.
type File struct {
	Objects []string
	Trailer string // additional entries of the trailer
}

// Bytes returns the content of the file.
func (f File) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.5\n%\xe2\xe3\xcf\xd3\n")
	offsets := make([]int, len(f.Objects))
	for i, body := range f.Objects {
		offsets[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, body)
	}
	at := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, f.Trailer, at)
	return b.Bytes()
}

// Stream returns a stream object with additional entries in its dictionary.
func Stream(entries string, content []byte) string {
	return fmt.Sprintf("<< /Length %d %s >>\nstream\n%s\nendstream", len(content), entries, content)
}

// Page is a page of a PDF, with its content operators. The font F1 is Helvetica.
type Page struct {
	Content string
	Entries string // further entries of the page's dictionary, such as "/Rotate 90"
	Image   []byte // grey image of Width by Height pixels that covers the whole page; nil for no image
	Width   int
	Height  int
}

// Text returns a page that contains lines in Helvetica of the given size, beginning at the top.
func Text(size int, lines ...string) Page {
	var b strings.Builder
	for i, l := range lines {
		fmt.Fprintf(&b, "BT /F1 %d Tf 1 0 0 1 72 %d Tm (%s) Tj ET\n", size, 700-i*(size*6/5), l)
	}
	return Page{Content: b.String()}
}

const objectsBeforePages = 3

// Pages returns a file with the given pages.
func Pages(pages ...Page) File {
	var kids []string
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
	}
	for i, p := range pages {
		n := objectsBeforePages + 3*i + 1
		kids = append(kids, fmt.Sprintf("%d 0 R", n))
		content, image := p.Content, "null"
		if p.Image != nil {
			content += "\nq 612 0 0 792 0 0 cm /I1 Do Q"
			const kind = "/Type /XObject /Subtype /Image /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /FlateDecode"
			image = Stream(fmt.Sprintf("%s /Width %d /Height %d", kind, p.Width, p.Height), Deflate(p.Image))
		}
		objects = append(objects,
			"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "+
				fmt.Sprintf("/Resources << /Font << /F1 3 0 R >> /XObject << /I1 %d 0 R >> >> /Contents %d 0 R %s >>", n+2, n+1, p.Entries),
			Stream("", []byte(content)), image)
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages))
	return File{Objects: objects}
}

// Deflate compresses content for /FlateDecode.
func Deflate(content []byte) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(content) // writing to memory does not fail
	_ = w.Close()
	return b.Bytes()
}

// deflateAgain compresses a text that is repeated the given number of times. It never holds all
// repetitions in memory.
func deflateAgain(text string, times int) []byte {
	var b bytes.Buffer
	w, _ := zlib.NewWriterLevel(&b, zlib.BestCompression) // fails only for an invalid level
	piece := bytes.Repeat([]byte(text), 1000)
	for range times / 1000 {
		_, _ = w.Write(piece)
	}
	_ = w.Close()
	return b.Bytes()
}

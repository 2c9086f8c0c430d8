package pdftest

import (
	"fmt"
	"strings"
)

// Hostile returns malicious PDF files by name.
func Hostile() map[string][]byte {
	page := "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents 5 0 R >>"
	font := "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
	root := "<< /Type /Catalog /Pages 2 0 R >>"
	onePage := func(contents string) []byte {
		return File{Objects: []string{root, "<< /Type /Pages /Kids [4 0 R] /Count 1 >>", font, page, contents}}.Bytes()
	}
	words := Stream("", []byte("BT /F1 12 Tf 72 700 Td (Some words stand here.) Tj ET"))
	tree := "<< /Type /Pages /Kids [4 0 R] /Count 1 >>"
	text := deflateAgain("BT /F1 12 Tf 72 700 Td (Some words stand here.) Tj ET\n", 4_000_000)
	spaces := Deflate(deflateAgain(strings.Repeat(" ", 64), 10_000_000))
	nulls := "<< /Type /Pages /Kids [" + strings.Repeat("null ", 1_000_000) + "] /Count 1000000 >>"
	return map[string][]byte{
		"a page tree that is its own child": File{Objects: []string{root, "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"}}.Bytes(),
		"two trees, each a child of the other": File{Objects: []string{
			root, "<< /Type /Pages /Kids [3 0 R] /Count 9 >>", "<< /Type /Pages /Kids [2 0 R] /Parent 2 0 R /Count 9 >>",
		}}.Bytes(),
		"an object that refers to itself": File{Objects: []string{root, "2 0 R"}}.Bytes(),
		"a form that draws itself": File{Objects: []string{
			root, tree, font, strings.Replace(page, "/Resources <<", "/Resources << /XObject << /X 6 0 R >>", 1),
			Stream("", []byte("BT /F1 12 Tf 72 700 Td (Some words stand here.) Tj ET /X Do")),
			Stream("/Type /XObject /Subtype /Form /BBox [0 0 600 700] /Resources << /XObject << /X 6 0 R >> >>", []byte("/X Do /X Do")),
		}}.Bytes(),
		"contents that contain themselves":    onePage("[5 0 R 5 0 R]"),
		"a length that is its own stream":     onePage("<< /Length 5 0 R >>\nstream\nBT ET\nendstream"),
		"an endless chain of previous tables": loopOfTables(),
		"arrays in arrays":                    onePage(strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)),
		"dictionaries in dictionaries":        onePage(strings.Repeat("<< /A ", 100_000) + "1" + strings.Repeat(" >>", 100_000)),
		"a page tree of 1,000 levels":         deepTree(1000),
		"forms of forms":                      laughs(12),
		"a decompression bomb":                onePage(Stream("/Filter /FlateDecode", text)),
		"a nested decompression bomb":         onePage(Stream("/Filter [/FlateDecode /FlateDecode]", spaces)),
		"an image of several terabytes": File{Objects: []string{
			root, tree, font, strings.Replace(page, "/Resources <<", "/Resources << /XObject << /X 6 0 R >>", 1),
			Stream("", []byte("q 612 0 0 792 0 0 cm /X Do Q")),
			Stream("/Type /XObject /Subtype /Image /Width 2000000 /Height 2000000 /ColorSpace /DeviceGray /BitsPerComponent 8", []byte("x")),
		}}.Bytes(),
		"a page several kilometres wide": File{Objects: []string{
			root, tree, font, strings.Replace(page, "612 792", "9999999 9999999", 1), Stream("", []byte("0 0 9000000 9000000 re f")),
		}}.Bytes(),
		"only its head":        []byte("%PDF-1.7\n"),
		"its beginning":        File{Objects: []string{root, tree, font, page, words}}.Bytes()[:120],
		"noise":                []byte("%PDF-1.4\n" + strings.Repeat("\x00\xff%obj<<[(", 100_000)),
		"a million null pages": File{Objects: []string{root, nulls}}.Bytes(),
	}
}

// loopOfTables returns a file whose cross-reference table refers to itself.
func loopOfTables() []byte {
	text := string(Pages(Text(12, "Some words stand here.")).Bytes())
	at := strings.Index(text, "\nxref") + 1
	return []byte(strings.Replace(text, "/Root", fmt.Sprintf("/Prev %d /Root", at), 1))
}

// deepTree returns a file whose page tree has the given number of levels.
func deepTree(levels int) []byte {
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>"}
	for i := range levels {
		objects = append(objects, fmt.Sprintf("<< /Type /Pages /Kids [%d 0 R] /Count 1 >>", i+3))
	}
	n := len(objects) + 1
	objects = append(
		objects,
		fmt.Sprintf("<< /Type /Page /Parent %d 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 %d 0 R >> >> /Contents %d 0 R >>",
			n-1, n+2, n+1),
		Stream("", []byte("BT /F1 12 Tf 72 700 Td (Some words stand here.) Tj ET")),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
	)
	return File{Objects: objects}.Bytes()
}

// laughs returns a file with nested forms. The forms have the given number of levels, and each form
// draws ten forms of the next level.
func laughs(levels int) []byte {
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >> /Contents 4 0 R >>",
		Stream("", []byte("/X Do")), "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
	}
	for i := range levels {
		resources := fmt.Sprintf("/Resources << /Font << /F1 5 0 R >> /XObject << /X %d 0 R >> >>", 7+i)
		content := strings.Repeat("/X Do ", 10)
		if i == levels-1 {
			content = "BT /F1 12 Tf 72 700 Td (ha) Tj ET"
		}
		objects = append(objects, Stream("/Type /XObject /Subtype /Form /BBox [0 0 600 700] "+resources, []byte(content)))
	}
	return File{Objects: objects}.Bytes()
}

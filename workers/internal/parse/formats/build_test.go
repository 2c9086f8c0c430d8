package formats_test

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"
)

// file is a file in an archive.
type file struct{ name, content string }

// archive returns a ZIP archive that contains the given parts.
func archive(tb testing.TB, files ...file) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		method := zip.Deflate
		if f.name == "mimetype" {
			method = zip.Store
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.name, Method: method})
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(f.content)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

const (
	wordMain  = `application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml`
	slideMain = `application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml`
	bookMain  = `application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml`
	office    = `http://schemas.openxmlformats.org/officeDocument/2006/relationships/`
)

func contentTypes(part, kind string) file {
	return file{"[Content_Types].xml", `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">` +
		`<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>` +
		`<Override PartName="/` + part + `" ContentType="` + kind + `"/></Types>`}
}

// rels returns the part with the relationships of another part. The argument pairs contains the
// kind and the target of each relationship.
func rels(of string, pairs ...string) file {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`)
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(`<Relationship Id="rId` + string(rune('1'+i/2)) + `" Type="` + office + pairs[i] + `" Target="` + pairs[i+1] + `"/>`)
	}
	b.WriteString(`</Relationships>`)
	return file{of, b.String()}
}

const wordSpace = ` xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="` + office + `" ` +
	`xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"`

// word returns a Word document with the given body.
func word(tb testing.TB, body string, more ...file) []byte {
	tb.Helper()
	files := []file{
		contentTypes("word/document.xml", wordMain),
		rels("_rels/.rels", "officeDocument", "word/document.xml"),
		{"word/document.xml", `<?xml version="1.0" encoding="UTF-8"?><w:document` + wordSpace + `><w:body>` + body + `</w:body></w:document>`},
	}
	return archive(tb, append(files, more...)...)
}

const drawSpace = ` xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="` + office + `"`

// shape returns the XML of a shape on a slide. The shape contains the given paragraphs.
func shape(holder string, paragraphs ...string) string {
	var b strings.Builder
	b.WriteString(`<p:sp><p:nvSpPr><p:cNvPr id="2" name="x"/><p:nvPr>`)
	if holder != "" {
		b.WriteString(`<p:ph type="` + holder + `"/>`)
	}
	b.WriteString(`</p:nvPr></p:nvSpPr><p:txBody>`)
	for _, p := range paragraphs {
		b.WriteString(`<a:p><a:r><a:rPr lang="en"/><a:t>` + p + `</a:t></a:r></a:p>`)
	}
	b.WriteString(`</p:txBody></p:sp>`)
	return b.String()
}

func slidePart(attributes, shapes string) string {
	return `<?xml version="1.0"?><p:sld` + drawSpace + attributes + `><p:cSld><p:spTree>` + shapes + `</p:spTree></p:cSld></p:sld>`
}

const packageSpace = `<package xmlns="http://www.idpf.org/2007/opf" version="3.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Book</dc:title><dc:language>en</dc:language></metadata>`

// book returns an EPUB book that consists of chapters.
func book(tb testing.TB, chapters []string, more ...file) []byte {
	tb.Helper()
	var items, spine strings.Builder
	files := []file{
		{"mimetype", "application/epub+zip"},
		{"META-INF/container.xml", `<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OEBPS/c.opf"/></rootfiles></container>`},
	}
	for i, c := range chapters {
		name := "c" + string(rune('1'+i)) + ".xhtml"
		items.WriteString(`<item id="` + name + `" href="` + name + `" media-type="application/xhtml+xml"/>`)
		spine.WriteString(`<itemref idref="` + name + `"/>`)
		files = append(files, file{"OEBPS/" + name, c})
	}
	files = append(files, file{"OEBPS/c.opf", packageSpace + `<manifest>` + items.String() + `<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest><spine toc="ncx">` +
		spine.String() + `</spine></package>`})
	return archive(tb, append(files, more...)...)
}

package formats_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/shared/testkit/cputime"
	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// hostile returns malicious documents with the expected results of reading them: the code of a
// failure, or "" if the document has text.
func hostile(tb testing.TB) []hostileCase {
	tb.Helper()
	deepXML := strings.Repeat("<w:sdt>", 1_000_000)
	laughs := `<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">]>`
	external := `<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]>`
	page := func(body string) string {
		return `<html xmlns="http://www.w3.org/1999/xhtml"><body>` + body + `</body></html>`
	}
	wordXML := func(prolog, body string) []byte {
		return archive(
			tb, contentTypes("word/document.xml", wordMain), rels("_rels/.rels", "officeDocument", "word/document.xml"),
			file{"word/document.xml", `<?xml version="1.0"?>` + prolog + `<w:document` + wordSpace + `><w:body>` + body + `</w:body></w:document>`},
		)
	}
	text := `<w:p><w:r><w:t>Words</w:t></w:r></w:p>`
	many := make([]file, 10_050)
	for i := range many {
		many[i] = file{fmt.Sprintf("x/%d", i), ""}
	}
	sheet := func(rows string) []byte {
		return archive(
			tb, contentTypes("xl/workbook.xml", bookMain), rels("_rels/.rels", "officeDocument", "xl/workbook.xml"),
			file{"xl/workbook.xml", `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="` + strings.TrimSuffix(office, "/") + `"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>`},
			rels("xl/_rels/workbook.xml.rels", "worksheet", "worksheets/sheet1.xml"),
			file{"xl/worksheets/sheet1.xml", `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>` + rows + `</sheetData></worksheet>`},
		)
	}
	return []hostileCase{
		{"flat bomb", "a.docx", wordXML("", strings.Repeat("<w:p/>", 3_000_000)), document.TooLarge, ""},
		{"many bombs", "a.docx", bombs(tb, 90, 7<<20), document.TooLarge, "512 MiB"},
		{"steep bombs", "a.docx", bombs(tb, 2, 12<<20), document.TooLarge, "times its size"},
		{"lying sizes", "a.docx", lyingArchive(tb), document.Damaged, ""},
		{"overlapping", "a.docx", overlapping(tb), document.Damaged, "overlap"},
		{"nested archives stay closed", "a.docx", word(tb, text, file{"word/embeddings/a.zip", string(bombs(tb, 90, 7<<20))}), "", "Words"},
		{"only archives", "a.zip", archive(tb, file{"a.zip", string(bombs(tb, 90, 7<<20))}), document.Unsupported, "ZIP archive"},
		{"many parts", "a.docx", word(tb, text, many...), document.TooLarge, "parts"},
		{"zip slip", "a.docx", word(tb, text, file{"../../../etc/cron.d/x", "evil"}, file{"/etc/passwd", "evil"}, file{`..\x`, "evil"}), "", "Words"},
		{"slipping main part", "a.docx", archive(
			tb, contentTypes("word/document.xml", wordMain), rels("_rels/.rels", "officeDocument", "../../../../etc/passwd"), file{"../../../../etc/passwd", "<a>secret</a>"},
		), document.Damaged, "main part"},
		{"slipping chapter", "a.epub", book(tb, []string{page("<p>Words</p>")}, file{"../x", "evil"}), "", "Words"},
		{"billion laughs", "a.docx", wordXML(laughs, `<w:p><w:r><w:t>&lol2;</w:t></w:r></w:p>`), document.Damaged, "entities"},
		{"external entity", "a.docx", wordXML(external, `<w:p><w:r><w:t>&x;</w:t></w:r></w:p>`), document.Damaged, "entities"},
		{"entities in a sheet", "a.xlsx", archive(tb, contentTypes("xl/workbook.xml", bookMain), file{"xl/workbook.xml", laughs + "<workbook>&lol2;</workbook>"}), document.Damaged, "entities"},
		{"entities in a book", "a.epub", book(tb, []string{laughs + page("<p>&lol2; Words</p>")}), "", "Words"},
		{"external entity in a page", "a.html", []byte(external + page("<p>&x; Words</p>")), "", "Words"},
		{"deep XML", "a.docx", wordXML("", deepXML), document.TooLarge, "deep"},
		{"deep tables", "a.docx", wordXML("", strings.Repeat("<w:tbl><w:tr><w:tc>", 60)+text), document.Damaged, ""},
		{"deep HTML", "a.html", []byte("<html>" + strings.Repeat("<div>", 1_000_000) + "x"), document.TooLarge, "deeply"},
		{"deep inline HTML", "a.html", []byte("<html>" + strings.Repeat("<b><i>", 500_000) + "x"), document.TooLarge, "deeply"},
		{"deep quotes", "a.md", []byte(strings.Repeat(">", 1_000_000) + "x"), document.TooLarge, "deeply"},
		{"deep brackets", "a.md", []byte(strings.Repeat("[", 1_000_000) + "x"), document.TooLarge, "deeply"},
		{"emphasis without end", "a.md", []byte("Words " + strings.Repeat("*a **a _a ", 30_000)), "", "Words"},
		{"backticks", "a.md", []byte("Words " + strings.Repeat("`a``b```c", 30_000)), "", "Words"},
		{"deep JSON", "a.json", []byte(strings.Repeat("[", 1_000_000)), document.TooLarge, "deep"},
		{"deep objects", "a.json", []byte(strings.Repeat(`{"a":`, 1_000_000)), document.TooLarge, "deep"},
		{"wide JSON", "a.json", []byte("[" + strings.Repeat("1,", 500_000) + "1]"), "", "1, 1"},
		{"one line", "a.txt", []byte(strings.Repeat("word ", 2_000_000)), "", "word"},
		{"one word", "a.txt", bytes.Repeat([]byte("x"), 5<<20), "", "xxx"},
		{"one cell", "a.csv", []byte(`a,"` + strings.Repeat("x\n", 200_000)), "", "a"},
		{"quotes without end", "a.csv", []byte(strings.Repeat(`"x,`, 200_000)), "", "x"},
		{"short lines", "a.txt", bytes.Repeat([]byte("x\n\n"), 600_000), document.TooLarge, "paragraphs"},
		{"accents without end", "a.txt", []byte("e" + strings.Repeat("\u0301", 1<<20)), "", "é"},
		{"last row, last column", "a.xlsx", sheet(`<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>Words</t></is></c></row>`), "", "Words"},
		{"wide rows", "a.xlsx", sheet(strings.Repeat(`<row><c r="XFD1"><v>1</v></c></row>`, 5_000)), document.TooLarge, "cells"},
		{"NUL and turned name", "\x00gpj.\u202Excod.txt", []byte("Words"), "", "Words"},
		{"NUL in text", "a.txt", []byte("Wo\x00rds and many more words that follow it, so that it is text."), "", "Words"},
		{"hidden characters", "a.txt", []byte("W\u202Eo\u200Br\u2066d\u00ADs\U000E0041"), "", "Words"},
		{"nothing but hidden elements", "a.html", []byte(`<style>.gone { display: none }</style><p class="gone">1</p><p class="sr-only">2</p>` +
			`<p style="position:absolute; left:-9999px">3</p><p style="clip: rect(0,0,0,0)">4</p>`), document.NoText, ""},
		{"wrong type and name", "a.pdf", word(tb, text), "", "Words"},
		{"text called Word", "a.docx", []byte("Words"), "", "Words"},
		{"program called text", "a.txt", append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00>\x00"), make([]byte, 100)...), document.Unsupported, "program"},
		{"image called text", "a.txt", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00"), document.Unsupported, "image"},
		{"zeros", "a.txt", make([]byte, 1<<20), document.Unsupported, ""},
		{"nothing", "a.txt", nil, document.NoText, "empty"},
		{"white space", "a.md", []byte(" \n\t \n\u00a0"), document.NoText, ""},
		{"empty Word document", "a.docx", word(tb, "<w:p/>"), document.NoText, ""},
		{"cut off", "a.docx", word(tb, text)[:300], document.Damaged, ""},
		{"a password", "a.docx", compoundFile("EncryptedPackage"), document.Encrypted, "password"},
		{"old Word", "a.docx", compoundFile("WordDocument"), document.Unsupported, ".doc"},
		{"a password on a part", "a.docx", lockedArchive(tb), document.Encrypted, "password"},
		{"copy protection", "a.epub", book(tb, []string{"x"}, file{"META-INF/encryption.xml", `<encryption><EncryptedData><CipherData><CipherReference URI="OEBPS/c1.xhtml"/></CipherData></EncryptedData></encryption>`}), document.Encrypted, "copy-protected"},
		{"protected fonts", "a.epub", book(tb, []string{page("<p>Words</p>")}, file{"META-INF/encryption.xml", `<encryption><EncryptedData><CipherData><CipherReference URI="OEBPS/f.otf"/></CipherData></EncryptedData></encryption>`}), "", "Words"},
		{"OpenDocument", "a.odt", archive(tb, file{"mimetype", "application/vnd.oasis.opendocument.text"}, file{"content.xml", "<a/>"}), document.Unsupported, "OpenDocument"},
		{"rich text", "a.txt", []byte(`{\rtf1 Words}`), document.Unsupported, "Rich Text"},
	}
}

type hostileCase struct {
	name, file string
	content    []byte
	code       document.Code
	has        string // text that must occur in the failure's message or in the document
}

// These are the limits for reading a malicious document. They are several times as large as the
// actual usage.
const (
	maxTime   = 2 * time.Minute
	maxMemory = 2 << 30 // total number of allocated bytes
)

func TestHostile(t *testing.T) { //nolint:paralleltest // it measures memory
	for _, c := range hostile(t) { //nolint:paralleltest // the same
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var r result
			took := cputime.Of(func() { r = read(t, parse.Input{Name: c.file, MIMEType: "application/pdf", Content: c.content}) })
			runtime.ReadMemStats(&after)
			t.Logf("%d bytes: %v, %d MiB allocated: %.120s", len(c.content), took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, r.outline())
			if took > maxTime || after.TotalAlloc-before.TotalAlloc > maxMemory {
				t.Errorf("took %v and %d MiB", took, (after.TotalAlloc-before.TotalAlloc)>>20)
			}
			if got := r.code(); got != c.code || (r.err == nil) != (c.code == "") {
				t.Fatalf("ended in %q (%v), want %q", got, r.err, c.code)
			}
			said := r.text()
			if r.err != nil {
				said = r.err.Error()
			}
			if !strings.Contains(said, c.has) {
				t.Errorf("got %.200q, want %q in it", said, c.has)
			}
			if strings.ContainsAny(said, "\x00\u202E\u2066\u200B") || !utf8.ValidString(said) || strings.Contains(said, "evil") || strings.Contains(said, "root:") {
				t.Errorf("got %.200q", said)
			}
		})
	}
}

// deflated returns compressed content and its header, for use in an archive.
func deflated(tb testing.TB, content []byte) (zip.FileHeader, []byte) {
	tb.Helper()
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return zip.FileHeader{
		Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(content), CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(len(content)),
	}, packed.Bytes()
}

// raw adds a part with the header h to an archive. It neither compresses the content nor checks the
// header.
func raw(tb testing.TB, z *zip.Writer, name string, h zip.FileHeader, data []byte) {
	tb.Helper()
	h.Name = name
	part, err := z.CreateRaw(&h)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := part.Write(data); err != nil {
		tb.Fatal(err)
	}
}

// bombs returns a Word document whose parts each have the given size when decompressed.
func bombs(tb testing.TB, parts, size int) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	h, packed := deflated(tb, []byte(contentTypes("word/document.xml", wordMain).content))
	raw(tb, z, "[Content_Types].xml", h, packed)
	h, packed = deflated(tb, make([]byte, size))
	for i := range parts {
		raw(tb, z, fmt.Sprintf("word/media/%d.xml", i), h, packed)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// lyingArchive returns an archive that declares a size of its part that is much smaller than the
// actual size.
func lyingArchive(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	h, packed := deflated(tb, []byte(contentTypes("word/document.xml", wordMain).content))
	raw(tb, z, "[Content_Types].xml", h, packed)
	h, packed = deflated(tb, bytes.Repeat([]byte("<w:p/>"), 5<<20))
	h.UncompressedSize64 = 1000
	raw(tb, z, "word/document.xml", h, packed)
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// overlapping returns an archive whose directory contains many entries for the same content.
func overlapping(tb testing.TB) []byte {
	tb.Helper()
	content := word(tb, `<w:p><w:r><w:t>Words</w:t></w:r></w:p>`)
	at := bytes.Index(content, []byte("PK\x01\x02"))
	end := bytes.Index(content, []byte("PK\x05\x06"))
	entry := content[at : at+46+int(binary.LittleEndian.Uint16(content[at+28:]))+int(binary.LittleEndian.Uint16(content[at+30:]))]
	b := bytes.Clone(content[:end])
	for range 200 {
		b = append(b, entry...)
	}
	tail := bytes.Clone(content[end:])
	count := binary.LittleEndian.Uint16(tail[8:]) + 200
	binary.LittleEndian.PutUint16(tail[8:], count)
	binary.LittleEndian.PutUint16(tail[10:], count)
	binary.LittleEndian.PutUint32(tail[12:], uint32(len(b)-at))
	return append(b, tail...)
}

// lockedArchive returns an archive whose parts are marked as encrypted.
func lockedArchive(tb testing.TB) []byte {
	tb.Helper()
	content := word(tb, "<w:p/>")
	for i := 0; i+8 < len(content); i++ {
		switch {
		case bytes.HasPrefix(content[i:], []byte("PK\x03\x04")):
			content[i+6] |= 1
		case bytes.HasPrefix(content[i:], []byte("PK\x01\x02")):
			content[i+8] |= 1
		}
	}
	return content
}

// compoundFile returns the beginning of a file in Microsoft's compound format that contains the
// name of a stream.
func compoundFile(stream string) []byte {
	b := make([]byte, 2048)
	copy(b, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1")
	for i := range len(stream) {
		b[1024+2*i] = stream[i]
	}
	return b
}

package formats_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf16"

	"github.com/xuri/excelize/v2"

	"parley/workers/internal/parse"
)

var update = flag.Bool("update", false, "write what is read as what is to be read")

// samples returns documents in every format: those in testdata, and generated documents.
func samples(tb testing.TB) map[string][]byte {
	tb.Helper()
	all := map[string][]byte{}
	for _, name := range []string{"page.html", "notes.md", "plain.txt", "table.csv", "title.csv", "codes.tsv", "orders.json", "log.jsonl"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			tb.Fatal(err)
		}
		all[name] = content
	}
	all["word.docx"] = wordSample(tb)
	all["slides.pptx"] = slidesSample(tb)
	all["sheets.xlsx"] = sheetsSample(tb)
	all["book.epub"] = bookSample(tb)
	all["utf16.txt"] = utf16Sample("Grüße, Jürgen.\n\nZweiter Absatz mit Ελληνικά.\n")
	return all
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, content := range samples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := read(t, parse.Input{Name: name, Content: content}).outline()
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("read as\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// utf16Sample returns text in UTF-16, little endian, without a byte order mark.
func utf16Sample(text string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

func wordSample(tb testing.TB) []byte {
	tb.Helper()
	run := func(s string) string { return `<w:r><w:t xml:space="preserve">` + s + `</w:t></w:r>` }
	par := func(style, content string) string {
		return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/></w:pPr>` + content + `</w:p>`
	}
	cell := func(s string) string { return `<w:tc><w:tcPr/><w:p>` + run(s) + `</w:p></w:tc>` }
	box := `<wps:txbx><w:txbxContent><w:p>` + run("In a box") + `</w:p></w:txbxContent></wps:txbx>`
	body := par("berschrift1", run("Einleitung")) +
		par("", run("Before ")+`<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins>`+run("inserted ")+`</w:ins>`+
			`<w:hyperlink r:id="rId9">`+run("a link")+`</w:hyperlink>`+run(" after")+`<w:r><w:footnoteReference w:id="2"/></w:r>`+run("; field ")+
			`<w:r><w:fldChar w:fldCharType="begin"/><w:instrText>PAGEREF x</w:instrText></w:r>`) +
		par("", run("Anchor")+`<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing>`+box+`</w:drawing></mc:Choice><mc:Fallback><w:pict>`+box+`</w:pict></mc:Fallback></mc:AlternateContent></w:r>`) +
		par("Mine", run("Based on a heading")) +
		`<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="3"/></w:numPr></w:pPr>` + run("listed") + `</w:p>` +
		`<w:tbl><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid><w:tr>` + cell("Key") + cell("Value") + `</w:tr><w:tr>` + cell("a") + cell("1") + `</w:tr>` +
		`<w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr><w:p>` + run("wide") + `</w:p></w:tc></w:tr></w:tbl>` +
		`<w:tbl><w:tblGrid><w:gridCol/></w:tblGrid><w:tr>` + cell("framed") + `</w:tr></w:tbl>` +
		par("", run("ends on one ")+`<w:r><w:lastRenderedPageBreak/><w:t>and goes on</w:t></w:r>`) +
		`<w:sdt><w:sdtPr><w:alias w:val="x"/></w:sdtPr><w:sdtContent>` + par("", run("controlled")) + `</w:sdtContent></w:sdt>`
	styles := `<w:styles` + wordSpace + `><w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val="de-DE"/></w:rPr></w:rPrDefault></w:docDefaults>` +
		`<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>` +
		`<w:style w:type="paragraph" w:styleId="h2"><w:name w:val="Titre 2"/></w:style>` +
		`<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="Mine"/><w:basedOn w:val="h2"/></w:style></w:styles>`
	notes := `<w:footnotes` + wordSpace + `><w:footnote w:type="separator" w:id="0"><w:p>` + run("sep") + `</w:p></w:footnote><w:footnote w:id="2"><w:p>` + run("The note.") + `</w:p></w:footnote></w:footnotes>`
	return word(tb, body, file{"word/styles.xml", styles}, file{"word/footnotes.xml", notes}, file{"word/header1.xml", "<x/>"},
		rels("word/_rels/document.xml.rels", "styles", "styles.xml", "footnotes", "footnotes.xml", "header", "header1.xml"),
		file{"docProps/core.xml", `<c xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Über uns</dc:title><dc:language>de-DE</dc:language></c>`})
}

func slidesSample(tb testing.TB) []byte {
	tb.Helper()
	row := func(a, b string) string {
		return `<a:tr><a:tc><a:txBody><a:p><a:r><a:t>` + a + `</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>` + b + `</a:t></a:r></a:p></a:txBody></a:tc></a:tr>`
	}
	first := shape("body", "Point one", "Point two") + shape("title", "The plan") + shape("sldNum", "1") + shape("", "A label")
	second := shape("ctrTitle", "Figures") + `<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tblPr firstRow="1"/>` + row("Year", "Sum") + row("2020", "7") + `</a:tbl></a:graphicData></a:graphic></p:graphicFrame>`
	return archive(
		tb, contentTypes("ppt/presentation.xml", slideMain), rels("_rels/.rels", "officeDocument", "/ppt/presentation.xml"),
		file{"ppt/presentation.xml", `<p:presentation` + drawSpace + `><p:sldIdLst><p:sldId id="256" r:id="rId2"/><p:sldId id="257" r:id="rId1"/></p:sldIdLst></p:presentation>`},
		rels("ppt/_rels/presentation.xml.rels", "slide", "slides/slide1.xml", "slide", "slides/slide2.xml"),
		file{"ppt/slides/slide1.xml", slidePart(` show="0"`, second)}, file{"ppt/slides/slide2.xml", slidePart("", first)},
		rels("ppt/slides/_rels/slide2.xml.rels", "notesSlide", "../notesSlides/n1.xml"),
		file{"ppt/notesSlides/n1.xml", slidePart("", shape("sldImg", "x")+shape("body", "Say this aloud.")+shape("sldNum", "1"))},
	)
}

func sheetsSample(tb testing.TB) []byte {
	tb.Helper()
	f := excelize.NewFile()
	defer f.Close()
	set := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	set(f.SetSheetRow("Sheet1", "A1", &[]any{"Product", "Price", "Sold"}))
	percent, err := f.NewStyle(&excelize.Style{NumFmt: 10})
	set(err)
	day, err := f.NewStyle(&excelize.Style{NumFmt: 14})
	set(err)
	set(f.SetSheetRow("Sheet1", "A2", &[]any{"Tea", 0.25, 44000}))
	set(f.SetCellStyle("Sheet1", "B2", "B2", percent))
	set(f.SetCellStyle("Sheet1", "C2", "C2", day))
	_, err = f.NewSheet("Zweites Blatt")
	set(err)
	set(f.SetSheetRow("Zweites Blatt", "B3", &[]any{"1", "", "x"}))
	set(f.SetSheetVisible("Zweites Blatt", false))
	b, err := f.WriteToBuffer()
	set(err)
	return b.Bytes()
}

func bookSample(tb testing.TB) []byte {
	tb.Helper()
	page := func(body string) string {
		return `<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x"/></head><body>` + body + `</body></html>`
	}
	return book(
		tb, []string{page(`<h2>One</h2><p>It was<br/>dark.</p><a id="x"/><p>So dark.</p>`), page(`<p>No heading here.</p>`)},
		file{"OEBPS/toc.ncx", `<?xml version="1.0"?><!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd"><ncx><navMap>` +
			`<navPoint><navLabel><text>Part One</text></navLabel><content src="c1.xhtml#x"/></navPoint><navPoint><navLabel><text>Part Two</text></navLabel><content src="c2.xhtml"/></navPoint></navMap></ncx>`},
	)
}

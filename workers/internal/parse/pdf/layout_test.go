package pdf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/workers/internal/document"
	"parley/workers/internal/parse/pdf/pdftest"
)

// readPages creates a PDF with the given pages and reads it.
func readPages(t *testing.T, pages ...pdftest.Page) extracted {
	t.Helper()
	path := filepath.Join(t.TempDir(), "document.pdf")
	if err := os.WriteFile(path, pdftest.Pages(pages...).Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return mustRead(t, path)
}

// at returns the PDF operators that draw a text at the position x, y, measured from the upper left
// corner.
func at(size, x, y int, text string) string {
	return fmt.Sprintf("BT /F1 %d Tf 1 0 0 1 %d %d Tm (%s) Tj ET\n", size, x, 792-y, text)
}

const filler = "Running text that is long enough to be taken for the body of this page by all"

func body(y int) string {
	var b strings.Builder
	for i := range 8 {
		b.WriteString(at(10, 72, y+12*i, filler))
	}
	return b.String()
}

// outline returns the kind and the beginning of each block.
func outline(d extracted) string {
	var b strings.Builder
	for _, x := range d.blocks {
		name := string(x.Kind)
		if x.Kind == document.Heading {
			name = fmt.Sprintf("h%d", x.Level)
		}
		if x.Head {
			name += "!"
		}
		text := []rune(x.Text)
		fmt.Fprintf(&b, "%s: %s\n", name, string(text[:min(len(text), 32)]))
	}
	return b.String()
}

func TestHyphensAtTheEndsOfLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lines, want string }{
		{"com-|puter", "computer"},
		{"Straßen-|übergang", "Straßenübergang"},
		{"030-|1234567", "030-1234567"},
		{"1990-|1995", "1990-1995"},
		{"from February-|March", "from February-March"},
		{"Baden-|Württemberg", "Baden-Württemberg"},
		{"the ISO-|code", "the ISO-code"},
		{"covid-|19", "covid-19"},
		{"here -|there", "here - there"},
		{"-|x", "- x"},
		{"one|two", "one two"},
		{"the end-", "the end-"},
	} {
		if got := join(strings.Split(c.lines, "|")); got != c.want {
			t.Errorf("%q: %q, not %q", c.lines, got, c.want)
		}
	}
}

func TestHeadingsItemsAndTables(t *testing.T) {
	t.Parallel()
	content := at(20, 72, 80, "A Title") + body(120) +
		at(14, 72, 250, "A section of it") + body(280) +
		at(10, 72, 400, "2.1.3 Numbered and short") +
		at(10, 72, 430, "\\267 first item") + at(10, 72, 443, "\\267 second item") +
		at(10, 72, 480, "Month") + at(10, 200, 480, "Place") + at(10, 330, 480, "Barrels") +
		at(10, 72, 500, "January") + at(10, 200, 500, "Bergen") + at(10, 330, 500, "31") +
		at(10, 72, 520, "March") + at(10, 200, 520, "Riga") + at(10, 330, 520, "62")
	want := `h1: A Title
paragraph: Running text that is long enough
h2: A section of it
paragraph: Running text that is long enough
h5: 2.1.3 Numbered and short
item: · first item
item: · second item
row!: Month | Place | Barrels
row: January | Bergen | 31
row: March | Riga | 62
`
	if got := outline(readPages(t, pdftest.Page{Content: content})); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestTwoColumnsAreReadOneAfterTheOther(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 20 {
		b.WriteString(at(10, 72, 100+12*i, fmt.Sprintf("left line %d of the column on this side", i)))
		b.WriteString(at(10, 330, 100+12*i, fmt.Sprintf("right line %d of the column on that side", i)))
	}
	text := readPages(t, pdftest.Page{Content: b.String()}).page(1)
	if left, right := strings.Index(text, "left line 19"), strings.Index(text, "right line 0"); left < 0 || right < left {
		t.Errorf("got %s", text)
	}
	if strings.Contains(text, "|") {
		t.Errorf("columns were taken for a table: %s", text)
	}
}

func TestRotatedPagesAndTheirPlaces(t *testing.T) {
	t.Parallel()
	text := at(12, 72, 80, "Some words stand here.")
	d := readPages(t, pdftest.Page{Content: text}, pdftest.Page{Content: text, Entries: "/Rotate 90"},
		pdftest.Page{Content: text, Entries: "/Rotate 180"}, pdftest.Page{Content: text, Entries: "/Rotate 270"})
	if len(d.blocks) != 4 {
		t.Fatalf("got %+v", d.blocks)
	}
	for i, b := range d.blocks {
		if b.Page != i+1 || b.Text != "Some words stand here." {
			t.Errorf("page %d: %+v", i+1, b)
		}
	}
	// The page is rotated clockwise. After the rotation, a position 72 points from the left and 80
	// from the top is 72 points from the top and 80 from the right.
	first, second := d.blocks[0].Box, d.blocks[1].Box
	if first[0] < 71 || first[0] > 73 || first[1] < 65 || first[3] > 85 {
		t.Errorf("box %v", first)
	}
	if second[1] < 71 || second[1] > 73 || second[2] > 792-65 || second[0] < 792-85 {
		t.Errorf("box on the rotated page: %v", second)
	}
}

func TestWordsOfANarrowFontChangeStayOne(t *testing.T) {
	t.Parallel()
	content := "BT 1 0 0 1 72 700 Tm /F1 12 Tf (Wo) Tj /F1 14 Tf (nder) Tj /F1 12 Tf ( and more) Tj ET"
	if got := readPages(t, pdftest.Page{Content: content}).page(1); got != "Wonder and more" {
		t.Errorf("got %q", got)
	}
}

func TestHyphensAtLineEnds(t *testing.T) {
	t.Parallel()
	content := at(10, 72, 100, "They told of an exam-") + at(10, 72, 112, "ple that nobody knew.")
	if got := readPages(t, pdftest.Page{Content: content}).page(1); got != "They told of an example that nobody knew." {
		t.Errorf("got %q", got)
	}
}

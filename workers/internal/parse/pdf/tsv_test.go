package pdf

import (
	"errors"
	"io"
	"strings"
	"testing"

	"parley/workers/internal/document"
)

const tsvHead = "level\tpage_num\tpar_num\tblock_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"

// tsvRow returns a row in the format of poppler, with the given level, page, flow, position and
// text.
func tsvRow(level, page, flow, position, text string) string {
	return level + "\t" + page + "\t" + flow + "\t0\t0\t0\t" + strings.ReplaceAll(position, " ", "\t") + "\t100\t" + text + "\n"
}

func TestScan(t *testing.T) {
	t.Parallel()
	s := newScanner(strings.NewReader(tsvHead+
		tsvRow("1", "3", "0", "0.000000 0.000000 612.000000 792.5", "###PAGE###")+
		tsvRow("3", "3", "0", "90.0 -2.5 87.25 30.5", "###FLOW###")+
		tsvRow("4", "3", "0", "90.0 -2.5 87.25 18.5", "###LINE###")+
		tsvRow("5", "3", "0", "90.00 -2.50 30.00 18.50", "R&D")+
		tsvRow("5", "3", "0", "121.00 0.00 56.25 16.00", "<b>&nope;\"")+
		tsvRow("4", "3", "0", "90.0 18.0 10.0 10.0", "###LINE###")+
		tsvRow("5", "3", "0", "90.00 18.00 10.00 10.00", "next")+
		tsvRow("3", "3", "0", "90.0 40.0 10.0 10.0", "###FLOW###")+
		tsvRow("4", "3", "0", "90.0 40.0 10.0 10.0", "###LINE###")+
		tsvRow("5", "3", "0", "90.00 40.00 10.00 10.00", "block")+
		tsvRow("3", "3", "1", "90.0 60.0 10.0 10.0", "###FLOW###")+
		tsvRow("4", "3", "1", "90.0 60.0 10.0 10.0", "###LINE###")+
		tsvRow("5", "3", "1", "90.00 60.00 10.00 10.00", "flow")+
		tsvRow("1", "4", "0", "0.000000 0.000000 10.000000 20.000000", "###PAGE###")), 3, 1)
	var p page
	if err := s.next(&p); err != nil {
		t.Fatal(err)
	}
	if p.number != 3 || p.width != 612 || p.height != 792.5 || len(p.blocks) != 3 || len(p.lines) != 4 || len(p.words) != 5 {
		t.Fatalf("%+v", p)
	}
	if got := string(p.word(0)) + " " + string(p.word(1)); got != `R&D <b>&nope;"` {
		t.Errorf("words: %s", got)
	}
	if b := p.blocks[0]; b.box != (box{90, -2.5, 177.25, 28}) || b.end-b.first != 2 {
		t.Errorf("block %+v", b)
	}
	if p.lines[0].box != (box{90, -2.5, 177.25, 16}) || p.lines[0].end != 2 {
		t.Errorf("line %+v", p.lines[0])
	}
	if p.blocks[0].flow != p.blocks[1].flow || p.blocks[1].flow == p.blocks[2].flow {
		t.Errorf("flows of %+v", p.blocks)
	}
	if err := s.next(&p); err != nil || p.number != 4 || p.height != 20 || len(p.words) != 0 || len(p.blocks) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if err := s.next(&p); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestScanOfWhatPopplerWouldNotPrint(t *testing.T) {
	t.Parallel()
	head := tsvHead + tsvRow("1", "1", "0", "0 0 1 1", "###PAGE###")
	word := tsvRow("5", "1", "0", "1 1 1 1", "a")
	for name, c := range map[string]struct {
		text  string
		words string
		err   error
	}{
		"cut off":           {head + "5\t1\t0\t0", "", nil},
		"words of no line":  {head + word, "a", nil},
		"a word on lines":   {head + tsvRow("5", "1", "0", "1 1 1 1", "a\nb\tc"), "a b\tc", nil},
		"a forged page":     {head + tsvRow("5", "1", "0", "1 1 1 1", "a\n1\t7\t0\t0\t0\t0\t0\t0\t9\t9\t-1\tx") + word, "a a", nil},
		"bad numbers":       {head + tsvRow("5", "1", "0", "1e9 nan 99999999999999999999999 -", "a"), "a", nil},
		"an empty word":     {head + tsvRow("5", "1", "0", "1 1 1 1", " "), "", nil},
		"an unknown level":  {head + tsvRow("7", "1", "0", "1 1 1 1", "a") + word, "a", nil},
		"a long word":       {head + tsvRow("5", "1", "0", "1 1 1 1", strings.Repeat("x", 600<<10)), strings.Repeat("x", 600<<10), nil},
		"a longer word":     {head + tsvRow("5", "1", "0", "1 1 1 1", strings.Repeat("x", 2<<20)), "", errTooMuch},
		"a word of lines":   {head + tsvRow("5", "1", "0", "1 1 1 1", strings.Repeat("x\n", 20<<20)), "x", errTooMuch},
		"nothing":           {"", "", io.EOF},
		"only the head":     {tsvHead, "", io.EOF},
		"words before":      {tsvHead + word + tsvRow("1", "1", "0", "0 0 1 1", "###PAGE###"), "", nil},
		"a page of another": {tsvHead + tsvRow("1", "5", "0", "0 0 1 1", "###PAGE###"), "", io.EOF},
	} {
		var p page
		err := newScanner(strings.NewReader(c.text), 1, 1).next(&p)
		var words []string
		for i := range p.words {
			words = append(words, string(p.word(i)))
		}
		if got := strings.Join(words, " "); !errors.Is(err, c.err) || err == nil && got != c.words {
			t.Errorf("%s: %.40q, %v", name, got, err)
		}
		for _, b := range p.blocks {
			if b.x1 >= maxCoordinate || b.y1 >= maxCoordinate {
				t.Errorf("%s: %v", name, b)
			}
		}
	}
	var failure *document.Failure
	if !errors.As(error(errTooMuch), &failure) || failure.Code != document.TooLarge {
		t.Error("too much text is another failure")
	}
}

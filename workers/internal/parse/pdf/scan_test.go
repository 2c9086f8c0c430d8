package pdf

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"parley/workers/internal/document"
)

const layoutText = `<!DOCTYPE html>
<html><head><title>x</title></head><body><doc>
  <page width="612.000000" height="792.5">
    <flow>
      <block xMin="90.000000" yMin="-2.5" xMax="177.366862" yMax="234.219749">
        <line xMin="90.000000" yMin="215.875001" xMax="177.366862" yMax="234.219749">
          <word xMin="90.000000" yMin="215.875001" xMax="120" yMax="234.219749">R&amp;D</word>
          <word xMin="121" yMin="215.875001" xMax="177.366862" yMax="234.219749">&lt;b&gt;&#x41;&#66;&nope;&quot;</word>
        </line>
      </block>
    </flow>
  </page>
  <page width="10" height="20">
  </page>
</doc>
</body></html>
`

func TestScan(t *testing.T) {
	t.Parallel()
	s := newScanner(strings.NewReader(layoutText), 1)
	var p page
	if err := s.next(&p); err != nil {
		t.Fatal(err)
	}
	if p.number != 1 || p.width != 612 || p.height != 792.5 || len(p.blocks) != 1 || len(p.lines) != 1 || len(p.words) != 2 {
		t.Fatalf("%+v", p)
	}
	if got := string(p.word(0)) + " " + string(p.word(1)); got != `R&D <b>AB&nope;"` {
		t.Errorf("words: %s", got)
	}
	if b := p.blocks[0].box; b.x0 != 90 || b.y0 != -2.5 || b.x1 < 177.3668 || b.x1 > 177.3669 {
		t.Errorf("block at %v", b)
	}
	if err := s.next(&p); err != nil || p.number != 2 || len(p.words) != 0 || len(p.blocks) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if err := s.next(&p); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestScanOfWhatPopplerWouldNotPrint(t *testing.T) {
	t.Parallel()
	head := "<page width=\"1\" height=\"1\">\n"
	for name, c := range map[string]struct {
		text  string
		words int
		err   error
	}{
		"cut off":           {head + "<flow>\n<block >\n<line >\n<word >a", 0, io.ErrUnexpectedEOF},
		"no end of page":    {head + "<flow>\n", 0, io.ErrUnexpectedEOF},
		"words of no line":  {head + "<word>a</word>\n</page>\n", 0, nil},
		"lines of no block": {head + "<line>\n<word >a</word>\n</page>\n", 0, nil},
		"a word on lines":   {head + "<block >\n<line >\n<word >a\nb</word>\n</page>\n", 1, nil},
		"bad numbers":       {head + "<block xMin=\"1e9\" yMin=\"nan\">\n<line xMin=\"99999999999999999999999\">\n<word xMin=\"-\" >a</word>\n</page>", 1, nil},
		"an empty word":     {head + "<block >\n<line >\n<word ></word>\n</page>", 0, nil},
		"a long word":       {head + "<block >\n<line >\n<word >" + strings.Repeat("x", 600<<10) + "</word>\n</page>", 1, nil},
		"a longer word":     {head + "<block >\n<line >\n<word >" + strings.Repeat("x", 2<<20) + "</word>\n</page>", 0, errTooMuch},
		"a word of lines":   {head + "<block >\n<line >\n<word >" + strings.Repeat("x\n", 20<<20), 0, errTooMuch},
		"nothing":           {"", 0, io.EOF},
		"words before":      {"<word >a</word>\n" + head + "</page>\n", 0, nil},
	} {
		var p page
		err := newScanner(strings.NewReader(c.text), 1).next(&p)
		if !errors.Is(err, c.err) || len(p.words) != c.words {
			t.Errorf("%s: %d words, %v", name, len(p.words), err)
		}
		for _, b := range p.blocks {
			if b.x0 != 0 || b.y0 != 0 {
				t.Errorf("%s: %v", name, b)
			}
		}
	}
	var failure *document.Failure
	if !errors.As(error(errTooMuch), &failure) || failure.Code != document.TooLarge {
		t.Error("too much text is another failure")
	}
}

func TestPlainBoxesAreThoseOfTheOtherWay(t *testing.T) {
	t.Parallel()
	plain := 0
	for _, n := range []string{
		"0", "90.000000", "177.366862", "5.", ".5", "999999.999999", "1000000", "12345678901234567", "0.123456789012345", "1.2345678901234567",
		"", ".", "1..5", "1.2.3", "-1.5", "1e9", "nan", " 1", "1>2", "99999999999999999999999",
	} {
		for _, end := range []string{">a</word>", " >a</word>", "", "/>"} {
			l := []byte(`<word xMin="` + n + `" yMin="2.5" xMax="3" yMax="` + n + `"` + end)
			got, at, is := plainBox(l)
			if !is {
				continue
			}
			plain++
			if want := boxOf(l); got != want || at != bytes.IndexByte(l, '>') {
				t.Errorf("%s: %v up to %d, not %v", l, got, at, want)
			}
		}
	}
	if plain != 10 {
		t.Errorf("%d boxes are plain", plain)
	}
}

package formats_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit/cputime"
	"parley/workers/internal/parse"
)

// numbered repeats a format with increasing numbers, until the text has at least the given size.
func numbered(format string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// slide returns a presentation with one slide that contains the given shapes.
func slide(tb testing.TB, shapes string) []byte {
	tb.Helper()
	return archive(
		tb, contentTypes("ppt/presentation.xml", slideMain), rels("_rels/.rels", "officeDocument", "/ppt/presentation.xml"),
		file{"ppt/presentation.xml", `<p:presentation` + drawSpace + `><p:sldIdLst><p:sldId id="256" r:id="rId1"/></p:sldIdLst></p:presentation>`},
		rels("ppt/_rels/presentation.xml.rels", "slide", "slides/slide1.xml"), file{"ppt/slides/slide1.xml", slidePart("", shapes)},
	)
}

// TestNoInputIsReadInQuadraticTime reads texts for which earlier versions needed minutes or several
// GiB. Now each text takes about a second. The time limit is the same as for text formats.
func TestNoInputIsReadInQuadraticTime(t *testing.T) { //nolint:paralleltest // it measures time
	const size = 800_000
	repeated := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for _, c := range []struct{ name, file, content string }{ //nolint:paralleltest // it measures time
		{"emphasis", "a.md", strings.Repeat("*a_ ", 110_000)},
		{"emphasis of the other kind", "a.md", repeated("_a* ")},
		{"long delimiters", "a.md", repeated("a***b_")},
		{"links without text", "a.md", repeated("[](")},
		{"links without end", "a.md", repeated("[a](")},
		{"links in angle brackets", "a.md", repeated("[a](<b")},
		{"links of brackets", "a.md", repeated("[a]((((((((((")},
		{"definitions of links", "a.md", numbered("[a%d]: b\n", size)},
		{"the same definition", "a.md", repeated("[a]: b\n")},
		{"titles of definitions", "a.md", repeated("[a]: b '\n")},
		{"broken definitions", "a.md", repeated("[a]: <b\n")},
		{"footnotes", "a.md", numbered("[^%d]: b\n\n", size/2) + "\n" + numbered("x[^%d] ", size/2)},
		{"footnotes after their marks", "a.md", numbered("x[^%d] ", size/2) + "\n\n" + numbered("[^%d]: b\n\n", size/2)},
		{"wide and long table", "a.md", strings.Repeat("|a", size/6) + "|\n" + strings.Repeat("|-", size/6) + "|\n" + strings.Repeat("a\n", size/6)},
		{"escaped pipes", "a.md", "|a|b|\n|-|-|\n|" + repeated("`\\|` ")},
		{"rows of escaped pipes", "a.md", "|a|b|\n|-|-|\n" + repeated("|`\\|`\n")},
		{"attributes of html", "a.html", "<html>" + numbered("<html a%d>", size) + "x"},
		{"attributes of body", "a.html", "<html>" + numbered("<body a%d>", size) + "x"},
		{"paragraphs of a title", "a.pptx", string(slide(t, shape("title", slices.Repeat([]string{"x"}, 200_000)...)))},
		{"long paths", "a.json", strings.Repeat(`{"`+strings.Repeat("a", 200)+`":`, 190) + "[" + repeated(`{"a":1},`) + "1]" + strings.Repeat("}", 190)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r result
			took := cputime.Of(func() { r = read(t, parse.Input{Name: c.file, Content: []byte(c.content)}) })
			t.Logf("%d bytes: %v: %.80s", len(c.content), took.Round(time.Millisecond), r.outline())
			if took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestBoundsChangeNothingOfOrdinaryText checks that emphasis and links are still recognized in a
// text that already contains many of them.
func TestBoundsChangeNothingOfOrdinaryText(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("Some *words* and a [link](https://example.com/a_(b)) to ~~read~~.\n", 1000)
	r := read(t, parse.Input{Name: "a.md", Content: []byte(text)})
	if said := r.text(); r.err != nil || strings.ContainsAny(said, "*[]()~") || !strings.Contains(said, "Some words and a link to read.") {
		t.Errorf("%v: %.200s", r.err, said)
	}
	r = read(t, parse.Input{Name: "a.md", Content: []byte("Words[^1] of it.\n\n" + numbered("[l%d]: https://example.com/%[1]d\n", 30_000) + "\nAnd [that][l500].\n\n[^1]: A note.\n")})
	if said := r.text(); r.err != nil || !strings.Contains(said, "And that.") || strings.Contains(said, "example.com") || !strings.Contains(said, "A note.") {
		t.Errorf("%v: %.200s", r.err, said)
	}
}

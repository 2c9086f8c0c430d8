package chunk_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/chunk"
	"parley/workers/internal/document"
)

func heading(level int, text string) document.Block {
	return document.Block{Kind: document.Heading, Level: level, Text: text}
}

func paragraph(text string) document.Block {
	return document.Block{Kind: document.Paragraph, Text: text}
}

func item(text string) document.Block { return document.Block{Kind: document.Item, Text: text} }

func row(text string) document.Block { return document.Block{Kind: document.Row, Text: text} }

func head(text string) document.Block {
	return document.Block{Kind: document.Row, Head: true, Text: text}
}

func on(page int, block document.Block) document.Block {
	block.Page = page
	return block
}

func chunks(limits chunk.Limits, blocks ...document.Block) []domain.Passage {
	c := chunk.New(limits)
	var all []domain.Passage
	for _, block := range blocks {
		all = append(all, c.Add(block)...)
	}
	return append(all, c.Close()...)
}

// pages returns the text of each page. The offsets of chunks refer to these texts.
func pages(blocks []document.Block) map[int]string {
	texts := map[int]string{}
	last, kind := -1, document.Kind("")
	for _, block := range blocks {
		if strings.TrimSpace(block.Text) == "" {
			continue
		}
		switch {
		case block.Page != last:
			texts[block.Page] = block.Text
		case kind == block.Kind && (kind == document.Row || kind == document.Item):
			texts[block.Page] += "\n" + block.Text
		default:
			texts[block.Page] += "\n\n" + block.Text
		}
		last, kind = block.Page, block.Kind
	}
	return texts
}

// check fails the test if the chunks violate a condition that all chunks must satisfy.
func check(t *testing.T, limits chunk.Limits, blocks []document.Block) []domain.Passage {
	t.Helper()
	got := chunks(limits, blocks...)
	texts := map[int][]rune{}
	for page, text := range pages(blocks) {
		texts[page] = []rune(text)
	}
	ends := map[int]int{}
	for i, passage := range got {
		page := 0
		if passage.Page != nil {
			page = *passage.Page
		}
		if passage.Chunk != i {
			t.Errorf("chunk %d has number %d", i, passage.Chunk)
		}
		if n := utf8.RuneCountInString(passage.Text); n > limits.Max || n == 0 {
			t.Errorf("chunk %d has %d code points, want 1 to %d", i, n, limits.Max)
		}
		if passage.StartIndex < ends[page] || passage.EndIndex > len(texts[page]) || passage.StartIndex >= passage.EndIndex {
			t.Fatalf("chunk %d is at %d to %d of %d on page %d, after %d", i, passage.StartIndex, passage.EndIndex, len(texts[page]), page, ends[page])
		}
		if want := string(texts[page][passage.StartIndex:passage.EndIndex]); passage.Text != want {
			t.Errorf("chunk %d is %q; the text at its offsets is %q", i, passage.Text, want)
		}
		if lost := strings.TrimSpace(string(texts[page][ends[page]:passage.StartIndex])); lost != "" {
			t.Errorf("%[2]q before chunk %[1]d is missing", i, lost)
		}
		ends[page] = passage.EndIndex
	}
	for page, text := range texts {
		if lost := strings.TrimSpace(string(text[ends[page]:])); lost != "" {
			t.Errorf("%[2]q after the last chunk of page %[1]d is missing", page, lost)
		}
	}
	return got
}

func texts(passages []domain.Passage) []string {
	all := make([]string, 0, len(passages))
	for _, passage := range passages {
		all = append(all, passage.Text)
	}
	return all
}

const small = 40

func TestTexts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		blocks []document.Block
		want   []string
	}{
		"nothing":                              {nil, []string{}},
		"empty blocks are no text":             {[]document.Block{paragraph(" \n"), paragraph("a")}, []string{"a"}},
		"short blocks share":                   {[]document.Block{paragraph("One."), paragraph("Two.")}, []string{"One.\n\nTwo."}},
		"items and rows by lines":              {[]document.Block{item("a"), item("b"), row("1 | 2"), row("3 | 4")}, []string{"a\nb\n\n1 | 2\n3 | 4"}},
		"never across pages":                   {[]document.Block{on(1, paragraph("One.")), on(2, paragraph("Two."))}, []string{"One.", "Two."}},
		"sentences stay whole":                 {[]document.Block{paragraph("The first sentence is here. And here the second one stands. A third.")}, []string{"The first sentence is here.", "And here the second one stands. A third."}},
		"Chinese sentences":                    {[]document.Block{paragraph(strings.Repeat("这是第一句话。", 10))}, []string{strings.Repeat("这是第一句话。", 5), strings.Repeat("这是第一句话。", 5)}},
		"Arabic sentences":                     {[]document.Block{paragraph("هذه هي الجملة الأولى هنا. وهذه هي الجملة الثانية؟ نعم هي.")}, []string{"هذه هي الجملة الأولى هنا.", "وهذه هي الجملة الثانية؟ نعم هي."}},
		"a long sentence is cut between words": {[]document.Block{paragraph("one two three four five six seven eight nine ten eleven twelve")}, []string{"one two three four five six seven eight nine", "ten eleven twelve"}},
		"a long word between characters":       {[]document.Block{paragraph(strings.Repeat("é", 60))}, []string{strings.Repeat("é", 48), strings.Repeat("é", 12)}},
		"not within one":                       {[]document.Block{paragraph(strings.Repeat("e\u0301\u0301\u0301\u0301", 12))}, []string{strings.Repeat("e\u0301\u0301\u0301\u0301", 9), strings.Repeat("e\u0301\u0301\u0301\u0301", 3)}},
		"Thai at its spaces":                   {[]document.Block{paragraph("ภาษาไทยไม่มีช่องว่างระหว่างคำ แต่มีช่องว่างระหว่างประโยค")}, []string{"ภาษาไทยไม่มีช่องว่างระหว่างคำ", "แต่มีช่องว่างระหว่างประโยค"}},
		"lines keep their indentation":         {[]document.Block{{Kind: document.Verbatim, Text: "func main() {\n\tprintln(\"hello there\")\n\tprintln(\"and again\")\n}"}}, []string{"func main() {\n\tprintln(\"hello there\")", "\tprintln(\"and again\")\n}"}},
		"rows stay whole":                      {[]document.Block{row("alpha | beta | gamma | delta"), row("one | two | three | four")}, []string{"alpha | beta | gamma | delta", "one | two | three | four"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := texts(check(t, chunk.Limits{Target: small, Max: 48}, tt.blocks))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestHeadings(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 30)
	tests := map[string]struct {
		blocks []document.Block
		want   []string // the headings of each chunk, joined by >
	}{
		"levels":                               {[]document.Block{heading(1, "A"), paragraph(long), heading(2, "B"), paragraph(long), heading(2, "C"), paragraph(long), heading(1, "D"), paragraph(long)}, []string{"A", "A>B", "A>C", "D"}},
		"levels skipped":                       {[]document.Block{heading(1, "A"), heading(4, "B"), paragraph(long), heading(2, "C"), paragraph(long)}, []string{"A>B", "A>C"}},
		"levels from below":                    {[]document.Block{heading(3, "A"), paragraph(long), heading(2, "B"), paragraph(long), heading(3, "C"), paragraph(long)}, []string{"A", "B", "B>C"}},
		"no level":                             {[]document.Block{heading(0, "A"), paragraph(long), heading(9, "B"), paragraph(long)}, []string{"A", "A>B"}},
		"before any":                           {[]document.Block{paragraph(long), heading(1, "A"), paragraph(long)}, []string{"", "A"}},
		"through pages":                        {[]document.Block{on(1, heading(1, "A")), on(1, paragraph(long)), on(2, paragraph(long))}, []string{"A", "A"}},
		"small sections under one parent join": {[]document.Block{heading(1, "A"), paragraph(long), heading(2, "B"), paragraph("b"), heading(2, "C"), paragraph("c")}, []string{"A", "A"}},
		"those of other parents do not":        {[]document.Block{heading(1, "A"), heading(2, "B"), paragraph("b"), heading(1, "C"), heading(2, "D"), paragraph("d")}, []string{"A>B", "C>D"}},
		"spaces":                               {[]document.Block{heading(1, " A \n b "), paragraph(long)}, []string{"A b"}},
		"columns of a table": {[]document.Block{
			heading(1, "A"), head("Name | Size"), row("one | " + long), row("two | " + long), paragraph(long),
		}, []string{"A", "A>Name | Size", "A"}},
		"columns on the next page": {[]document.Block{on(1, head("Name | Size")), on(1, row("one | 1")), on(2, row("two | 2"))}, []string{"", "Name | Size"}},
		"another table":            {[]document.Block{head("Name | Size"), row("one | 1"), paragraph(long), row("x | y")}, []string{"", ""}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, passage := range check(t, chunk.Limits{Target: 160, Max: 220}, tt.blocks) {
				got = append(got, strings.Join(passage.Headings, ">"))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestHeadingStaysWithItsText(t *testing.T) {
	t.Parallel()
	thai := strings.Repeat("ภาษาไทย", 100)
	got := check(t, chunk.Limits{Target: 100, Max: 160}, []document.Block{heading(1, "บทที่หนึ่ง"), paragraph(thai)})
	if !strings.Contains(got[0].Text, "\n\nภาษา") {
		t.Errorf("the first chunk is %q", got[0].Text)
	}
}

func TestBoxes(t *testing.T) {
	t.Parallel()
	a, b := domain.Box{10, 20, 30, 40}, domain.Box{5, 50, 20, 60}
	first, second := on(1, paragraph("One.")), on(1, paragraph("Two."))
	first.Box, second.Box = &a, &b
	got := chunks(chunk.Limits{}, first, second, on(2, paragraph("Three.")))
	if got[0].Box == nil || *got[0].Box != (domain.Box{5, 20, 30, 60}) || a != (domain.Box{10, 20, 30, 40}) {
		t.Errorf("got %v, want a box around both blocks; the first block's is %v", got[0].Box, a)
	}
	if got[1].Box != nil || *got[1].Page != 2 {
		t.Errorf("got %v on page %d, want none on page 2", got[1].Box, *got[1].Page)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	var blocks []document.Block
	for i := range 200 {
		blocks = append(blocks, paragraph(strings.Repeat(fmt.Sprintf("Sentence %d is of middling length. ", i), 1+i%40)))
	}
	short := 0
	got := check(t, chunk.Limits{Target: 1000, Max: 1600}, blocks)
	for i, passage := range got {
		if byDefault := chunks(chunk.Limits{}, blocks...)[i]; byDefault.Text != passage.Text {
			t.Fatalf("chunk %d is another by default", i)
		}
		if passage.EndIndex-passage.StartIndex < 500 {
			short++
		}
	}
	if short > len(got)/10 {
		t.Errorf("%d of %d chunks are less than half full", short, len(got))
	}
}

func TestDeterministic(t *testing.T) {
	t.Parallel()
	blocks := sample(50)
	one, two := chunks(chunk.Limits{}, blocks...), chunks(chunk.Limits{}, blocks...)
	if !slices.EqualFunc(one, two, func(a, b domain.Passage) bool { return a.Text == b.Text && slices.Equal(a.Headings, b.Headings) }) {
		t.Error("the same blocks gave different chunks")
	}
}

// sample returns a document with many pages that contains all kinds of blocks.
func sample(pages int) []document.Block {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, and nobody minds at all. ", 8)
	var blocks []document.Block
	for page := 1; page <= pages; page++ {
		blocks = append(blocks, on(page, heading(1+page%3, fmt.Sprintf("Section %d", page))))
		for range 4 {
			blocks = append(blocks, on(page, paragraph(prose)))
		}
		blocks = append(blocks, on(page, head("Name | Size | Date")))
		for i := range 8 {
			blocks = append(blocks, on(page, row(fmt.Sprintf("file%d.txt | %d | 2026-11-%02d", i, i*17, i+1))))
		}
		blocks = append(blocks, on(page, paragraph(strings.Repeat("这一句话是中文的。", 20))))
	}
	return blocks
}

// FuzzChunks converts each line of a text to a block. The first character of a line determines the
// block's kind. A line that consists of > begins a new page.
func FuzzChunks(f *testing.F) {
	f.Add("hTitle\npA sentence. Another one.\nr1 | 2\nRname | size\nr3 | 4\nvcode\n>\niitem\npx", 30)
	f.Add("p"+strings.Repeat("ภาษาไทย", 30)+"\nh中文\np"+strings.Repeat("这是一句话。", 20), 20)
	f.Add("pمرحبا بكم. هذه جملة أخرى.\n>\np"+strings.Repeat("e\u0301", 40), 7)
	f.Add("p\u2028\n\x80p\xff\xfe\nv\t a \u00a0", 1)
	f.Fuzz(func(t *testing.T, source string, target int) {
		if len(source) > 20000 {
			return
		}
		limits := chunk.Limits{Target: 1 + (target&0x7fffffff)%200}
		limits.Max = limits.Target + limits.Target/2
		blocks := parse(source)
		for _, passage := range check(t, limits, blocks) {
			if strings.TrimFunc(passage.Text, unicode.IsSpace) == "" {
				t.Errorf("chunk %d is empty: %q", passage.Chunk, passage.Text)
			}
		}
	})
}

func parse(source string) []document.Block {
	kinds := map[byte]document.Kind{'h': document.Heading, 'p': document.Paragraph, 'i': document.Item, 'r': document.Row, 'R': document.Row, 'v': document.Verbatim}
	page := len(source) % 2 // half of the documents have no pages
	var blocks []document.Block
	for line := range strings.SplitSeq(strings.ToValidUTF8(source, "?"), "\n") {
		if line == ">" && page > 0 {
			page++
		}
		if len(line) < 2 || kinds[line[0]] == "" {
			continue
		}
		text := strings.ReplaceAll(line[1:], "\v", "\n")
		blocks = append(blocks, document.Block{Kind: kinds[line[0]], Head: line[0] == 'R', Level: len(line) % 8, Page: page, Text: text})
	}
	return blocks
}

func BenchmarkChunks(b *testing.B) {
	blocks := sample(100)
	bytes := 0
	for _, block := range blocks {
		bytes += len(block.Text)
	}
	b.SetBytes(int64(bytes))
	for b.Loop() {
		chunks(chunk.Limits{}, blocks...)
	}
}

func BenchmarkLongParagraph(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, and nobody minds at all. ", 2000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		chunks(chunk.Limits{}, paragraph(text))
	}
}

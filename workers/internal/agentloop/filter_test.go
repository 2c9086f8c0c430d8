package agentloop

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/shared/domain"
)

// tested contains the sources that the texts in this file cite.
var tested = []string{
	1: "The tower is 330 metres tall, about the same height as an 81-storey building. Its base is square. “It’s a lattice – of iron…” said Eiffel.",
	2: "埃菲尔铁塔是位于法国巴黎战神广场的铁制镂空塔。铁塔高三百三十米，是巴黎最高的建筑物。它每年接待近七百万名游客。",
	3: "يبلغ ارتفاع البرج 330 مترًا. يزوره سبعة ملايين شخص كل عام.",
	4: "Cafe\u0301s are open — daily 🗼 from\n\t9 to 5; see [sic] the notes, \"both\" of them.",
	5: "",
}

func testPassages() passages {
	p := passages{}
	for id, text := range tested {
		if id > 0 {
			p[id] = &passage{source: domain.Citation{ID: id, Type: "web", CitedText: text}}
		}
	}
	return p
}

// filtered is the output of the filter for a text.
type filtered struct {
	text    string
	removed int
	cited   []domain.Citation
	pieces  []string
}

// filterText passes a text to the filter in pieces. The pieces end at the offsets in cuts.
func filterText(text string, cuts ...int) filtered {
	var got filtered
	p := testPassages()
	f := newFilter(p.check, func(piece string) { got.pieces = append(got.pieces, piece) })
	from := 0
	for _, at := range cuts {
		f.write(text[from:at])
		from = at
	}
	f.write(text[from:])
	got.text = f.finish()
	got.removed = f.removed
	got.cited = p.citations(got.text, f.marks, 0)
	return got
}

// short formats each citation as text: its number and the words that it supports.
func (f filtered) short() string {
	var all []string
	for _, c := range f.cited {
		all = append(all, fmt.Sprintf("%d %s", c.ID, string([]rune(f.text)[c.StartIndex:c.EndIndex])))
	}
	return strings.Join(all, " | ")
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text, want string
		removed          int
		cited            string // the number and the supported words
	}{
		{"none", "Nothing to see.", "Nothing to see.", 0, ""},
		{"a number", "It is tall [1].", "It is tall [1].", 0, "1 It is tall"},
		{"several", "It is tall [1, 2; 3].", "It is tall [1][2][3].", 0, "1 It is tall | 2 It is tall | 3 It is tall"},
		{"with spaces", "It is tall [ 1 ,2 ].", "It is tall [1][2].", 0, "1 It is tall | 2 It is tall"},
		{"no such source", "On Mars [99]. Yes.", "On Mars. Yes.", 1, ""},
		{"a source without text", "On Mars [5].", "On Mars.", 1, ""},
		{"one of two", "It is tall [99, 1]!", "It is tall [1]!", 1, "1 It is tall"},
		{"a quote", `It is tall [1 "330 metres tall"].`, "It is tall [1].", 0, "1 It is tall"},
		{"a typographic quote", "It is tall [1 “330 metres tall”].", "It is tall [1].", 0, "1 It is tall"},
		{"guillemets", "It is tall [1 « 330 metres tall »].", "It is tall [1].", 0, "1 It is tall"},
		{"German quotes", "It is tall [1 „330 metres tall“].", "It is tall [1].", 0, "1 It is tall"},
		{"corner brackets", "很高[2 「铁塔高三百三十米」]。", "很高[1]。", 0, "2 很高"},
		{"single quotes", "It is tall [1 '330 metres tall'].", "It is tall [1].", 0, "1 It is tall"},
		{"a comma before the quote", `It is tall [1, "330 metres tall"].`, "It is tall [1].", 0, "1 It is tall"},
		{"a colon before the quote", `It is tall [1: "330 metres tall"].`, "It is tall [1].", 0, "1 It is tall"},
		{"quotes and numbers", `Tall [1 "330 metres tall"; "base is square", 2 “铁塔高三百三十米”; 3].`, "Tall [1][2][3].", 0, "1 Tall | 2 Tall | 3 Tall"},
		{"one of two quotes", `Tall [1 "painted green"; "base is square"].`, "Tall [1].", 1, "1 Tall"},
		{"no quote holds", `Tall [1 "painted green", "sold"].`, "Tall.", 2, ""},
		{"an invented quote", `Tall [1 "painted by aliens"] it is.`, "Tall it is.", 1, ""},
		{"the quote of another source", `Tall [2 "330 metres tall"].`, "Tall.", 1, ""},
		{"an empty quote", `It is tall [1 ""].`, "It is tall [1].", 0, "1 It is tall"},
		{"only signs", `It is tall [1 "..."].`, "It is tall.", 1, ""},
		{"a bracket in the quote", `Open [4 "see [sic] the notes"].`, "Open [4].", 0, "4 Open"},
		{"quotes in the quote", `Open [4 "the notes, "both" of them"].`, "Open [4].", 0, "4 Open"},
		{"an apostrophe in the quote", "Iron [1 'It's a lattice'].", "Iron [1].", 0, "1 Iron"},
		{"no space before", "很高[99]。真的[2]。", "很高。真的[2]。", 1, "2 真的"},
		{"between two words", "It is [99]very tall.", "It is very tall.", 1, ""},
		{"in front of a line", "[99] It is tall.\n[98] So it is.", "It is tall.\nSo it is.", 2, ""},
		{"a list's line", "- [99] tall\n- wide [1]", "- tall\n- wide [1]", 1, "1 wide"},
		{"zero is not a source", "From [0, 1] to [01].", "From [0, 1] to [01].", 0, ""},
		{"a long number", "[1234567]", "[1234567]", 0, ""},
		{"not closed", "It is [1", "It is [1", 0, ""},
		{"a quote not closed", `It is [1 "330 metres`, "It is 330 metres", 1, ""},
		{"a quote over paragraphs", "It is [1 \"330\n\nNext [1].", "It is 330\n\nNext [1].", 1, "1 Next"},
		{"a quote over lines", "Open [4 \"from\n9 to 5\"].", "Open [4].", 0, "4 Open"},
		{"a link", "See [1](https://tower.example) and [99](x).", "See [1](https://tower.example) and [99](x).", 0, ""},
		{"other brackets", "A [note], an [x1], [1-2], [ ], [] and [1 2].", "A [note], an [x1], [1-2], [ ], [] and [1 2].", 0, ""},
		{"inline code", "Use `a[99]` and `` b[1]`[2] `` [1].", "Use `a[99]` and `` b[1]`[2] `` [1].", 0, "1 Use `a[99]` and `` b[1]`[2] ``"},
		{"a backtick alone", "A ` is a sign [99], tall [1].\nNext `x` [2].", "A ` is a sign, tall [1].\nNext `x` [2].", 1, "1 tall | 2 Next `x`"},
		{"a backtick at the end", "It is tall [99] `", "It is tall `", 1, ""},
		{"a code block", "Go:\n```go\na[1] = b[99]\n``` no\n```\nTall [1] [99].", "Go:\n```go\na[1] = b[99]\n``` no\n```\nTall [1].", 1, "1 Tall"},
		{"a code block of tildes", "~~~~\n[99]\n~~~\n[98]\n~~~~\n[97]", "~~~~\n[99]\n~~~\n[98]\n~~~~\n", 1, ""},
		{"a code block in a list", "1. Go:\n   ```\n   [99]\n   ```\n   so [1]", "1. Go:\n   ```\n   [99]\n   ```\n   so [1]", 0, "1 so"},
		{"no code block", "```a[99]``` [98]\nb", "```a[99]```\nb", 1, ""},
		{"between runs", "`a`[99]`b` ~[98]~", "`a` `b` ~ ~", 2, ""},
		{"a marker in a marker", "Tall [9[99]9] and [[98]1].", "Tall and [1].", 3, "1 and"},
		{"a marker between brackets", "Tall [[1]] and [[99]].", "Tall [[1]] and [].", 1, "1 Tall"},
		{"trailing space", "It is tall. ", "It is tall. ", 0, ""},
		{"all of it", " [99]", "", 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want = strings.Replace(tt.want, "很高[1]。", "很高[2]。", 1)
			got := filterText(tt.text)
			if got.text != tt.want || got.removed != tt.removed || got.short() != tt.cited {
				t.Errorf("got  %q, %d removed, cited %q\nwant %q, %d removed, cited %q",
					got.text, got.removed, got.short(), tt.want, tt.removed, tt.cited)
			}
		})
	}
}

func TestSupportedWords(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"the sentence":        {"It stands in Paris. It is tall [1]. It is old.", "1 It is tall"},
		"behind the stop":     {"It is tall. [1] It is wide. [2]", "1 It is tall. | 2 It is wide."},
		"clauses":             {"It is tall [1], and was built in 1889 [2]; so there [3].", "1 It is tall | 2 and was built in 1889 | 3 so there"},
		"side by side":        {"It is tall [1][2] [3].", "1 It is tall | 2 It is tall | 3 It is tall"},
		"stop in between":     {"It is tall [1]. [2] It is wide.", "1 It is tall | 2 It is tall"},
		"behind a removed":    {"It is green [99] and tall [1].", "1 and tall"},
		"beside a removed":    {"It is tall [99][1].", "1 It is tall"},
		"emoji":               {"👩‍🚀 Hello! The tower is 330 m tall 🗼 [1]. 👍🏽 [2]", "1 The tower is 330 m tall 🗼 | 2 👍🏽"},
		"combining marks":     {"Les cafe\u0301s. Le cafe\u0301 [4] e\u0301tait bon [1].", "4 Le cafe\u0301 | 1 e\u0301tait bon"},
		"Chinese":             {"你好。铁塔高三百三十米[2]，很有名[1]！真的吗？是[2]", "2 铁塔高三百三十米 | 1 很有名 | 2 是"},
		"Arabic":              {"مرحبا. يبلغ ارتفاع البرج 330 مترًا [3]. هل هو جميل؟ نعم [1].", "3 يبلغ ارتفاع البرج 330 مترًا | 1 نعم"},
		"Hindi":               {"नमस्ते। टावर ऊँचा है [1]।", "1 टावर ऊँचा है"},
		"Thai":                {"หอคอยสูงมาก [1] และเก่า [2]", "1 หอคอยสูงมาก | 2 และเก่า"},
		"a list":              {"Facts:\n- tall [1]\n* wide [2]\n  12. old [3]\n> - [x] done [4]", "1 tall | 2 wide | 3 old | 4 done"},
		"a heading":           {"## Height [1]\ntext", "1 Height"},
		"a table":             {"| What | How |\n|---|---|\n| height | 330 m [1] |\n| [2] base | square [3] | [4] |", "1 330 m | 2 base | 3 square | 4 square"},
		"emphasis":            {"**Height:** 330 m [1]. **It is tall [2].** _Yes [3]_", "1 **Height:** 330 m | 2 It is tall | 3 Yes"},
		"in brackets":         {"It is tall (330 m [1]) and wide ([2]).", "1 It is tall (330 m | 2 and wide"},
		"before the words":    {"Sources:\n[1] The tower, 2020\n[2][3] Le Monde", "1 The tower, 2020 | 2 Le Monde | 3 Le Monde"},
		"alone in its line":   {"It is tall.\nIt is wide.\n\n[1]\n[2]", "1 It is wide. | 2 It is wide."},
		"below a table":       {"| a | b |\n|---|---|\n| c | d |\n\n[1]", "1 c | d"},
		"nothing at all":      {"[1]", "1 "},
		"titles":              {"Hello. Dr. Smith and Mr. Jones climbed it [1].", "1 Dr. Smith and Mr. Jones climbed it"},
		"decimals":            {"It weighs 7.3 million kg, e.g. much [1].", "1 It weighs 7.3 million kg, e.g. much"},
		"below zero":          {"-5 °C it was [1].", "1 -5 °C it was"},
		"windows line ends":   {"Tall.\r\nIt is wide [1].\r\n", "1 It is wide"},
		"a dash":              {"It is tall [1] – and old [2] — very [3].", "1 It is tall | 2 and old | 3 very"},
		"a quote in the text": {"He said “it is tall” [1]. »Der Turm« ist hoch [2].", "1 He said “it is tall” | 2 »Der Turm« ist hoch"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := filterText(tt.text).short(); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestQuotes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		source int
		quote  string
		want   string // the spelling in the source; "" if the source does not contain the quote
	}{
		{1, "330 metres tall", "330 metres tall"},
		{1, " 330\u00a0metres\n tall ", "330 metres tall"},
		{1, "…330 metres tall...", "330 metres tall"},
		{1, "Its base is square.", "Its base is square."},
		{1, "330 metres tall.", "330 metres tall"},
		{1, `"It's a lattice - of iron..." said Eiffel`, "“It’s a lattice – of iron…” said Eiffel"},
		{1, "‘It’s a lattice — of iron", "“It’s a lattice – of iron"},
		{1, "81‑storey", "81-storey"},
		{1, "331 metres tall", ""},
		{1, "THE TOWER", ""},
		{1, "The tower metres tall", ""},
		{1, "The tower … square", ""},
		{1, ".", ""},
		{2, "铁塔高三百三十米", "铁塔高三百三十米"},
		{2, "铁塔高三百三十米。", "铁塔高三百三十米"},
		{2, "铁塔高三百米", ""},
		{3, "330 مترًا", "330 مترًا"},
		{4, "Cafés", "Cafe\u0301s"},
		{4, "Cafe", ""}, // no match, because the accent is part of the last character
		{4, "open -- daily 🗼 from 9", "open — daily 🗼 from\n\t9"},
		{4, `from\n\t9 to 5; see [sic] the notes, \"both\" of them`, "from\n\t9 to 5; see [sic] the notes, \"both\" of them"},
		{4, "open\u200b — daily", "open — daily"},
	}
	for _, tt := range tests {
		f := fold(tested[tt.source])
		got := f.find(tt.quote)
		if got != tt.want || !strings.Contains(tested[tt.source], got) {
			t.Errorf("%q: got %q, want %q", tt.quote, got, tt.want)
		}
	}
}

func TestLongQuotesAreCut(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"words": strings.Repeat("word ", 300), "one word": strings.Repeat("w", 900),
		"Chinese": strings.Repeat("塔", 900), "accents": strings.Repeat("e\u0301", 900),
	} {
		f := fold(text)
		got := f.find(strings.TrimSpace(text))
		if n := utf8.RuneCountInString(got); n > maxQuote || n < maxQuote-5 || !strings.HasPrefix(text, got) {
			t.Errorf("%s: %d characters", name, n)
		}
		p := passage{source: domain.Citation{CitedText: text}}
		if n := utf8.RuneCountInString(p.choose("w")); n > maxQuote || n == 0 {
			t.Errorf("%s: chose %d characters", name, n)
		}
	}
}

func TestChosenWords(t *testing.T) {
	t.Parallel()
	tests := []struct {
		source          int
		supported, want string
	}{
		{1, "The base of the tower has the form of a square", "Its base is square."},
		{1, "It has as many metres as a building of 81 storeys", "The tower is 330 metres tall, about the same height as an 81-storey building."},
		{2, "每年有七百万名游客", "它每年接待近七百万名游客。"},
		{2, "高三百三十米", "铁塔高三百三十米，是巴黎最高的建筑物。"},
		{3, "سبعة ملايين شخص", "يزوره سبعة ملايين شخص كل عام."},
		{1, "Quelque chose d’autre", "The tower is 330 metres tall, about the same height as an 81-storey building."},
		{1, "", "The tower is 330 metres tall, about the same height as an 81-storey building."},
		{4, "open daily", "Cafe\u0301s are open — daily 🗼 from"},
	}
	for _, tt := range tests {
		if got := testPassages()[tt.source].choose(tt.supported); got != tt.want || !strings.Contains(tested[tt.source], got) {
			t.Errorf("%q: got %q, want %q", tt.supported, got, tt.want)
		}
	}
}

// TestTextIsNotHeldForLong writes a text character by character. Text without brackets is emitted
// immediately, and text after a bracket is emitted soon.
func TestTextIsNotHeldForLong(t *testing.T) {
	t.Parallel()
	late := func(text string) (bytes, held int) { // maximum numbers of held-back bytes before the first marker, and of held-back characters
		p := testPassages()
		shown := 0
		f := newFilter(p.check, func(piece string) { shown += len(piece) })
		for i, r := range text {
			f.write(string(r))
			held = max(held, len(f.tail))
			if len(f.marks) == 0 {
				bytes = max(bytes, i+utf8.RuneLen(r)-shown)
			}
		}
		return bytes, held
	}
	if n, _ := late("It is 330 m tall, `a := b`, and\n```\nx[0]\n```\nold. 真的！"); n > 1 {
		t.Errorf("held back %d bytes of plain text", n)
	}
	if n, _ := late("It is tall [1 \"330 metres tall\"] and so on."); n > 30 {
		t.Errorf("held back %d bytes for a marker", n)
	}
	for _, endless := range []string{
		`x [1 "` + strings.Repeat("y", 5000), strings.Repeat("[", 5000), "`[" + strings.Repeat("y", 5000), strings.Repeat(" ", 5000), "` " + strings.Repeat(" ", 5000),
		"[1" + strings.Repeat(" ", 5000), "[1" + strings.Repeat(", 1", 5000), strings.Repeat(`[1 "`, 5000), strings.Repeat("`[", 5000),
	} {
		if _, n := late(endless); n > maxHeld {
			t.Errorf("held back %d characters of %q", n, endless[:10])
		}
	}
}

// bits contains parts from which texts are composed: markers, and parts that look like markers but
// are not markers.
var bits = []string{
	"[", "]", "[", "]", "(", "1", "2", "99", "9", ",", ";", " ", " ", "\n", "\n\n", "\"", "“", "”", "'", "`", "``", "```", "```\n", "~~~\n", "-", "|",
	"[1]", "[99]", "[1 \"", "[1 \"330 metres tall\"]", "[2 “铁塔高三百三十米”]", "[1 \"painted green\"]", "\"]", "330 metres tall", "铁塔。", "It is tall. ", "🗼",
	"e\u0301", "\u0301", "ج", ". ", "**", "](u)", "[3, 99]", ":", "> ", "\t", "\u3000", "\xff", "\xe5", "x", "[4 'from\n9']",
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(24) {
		b.WriteString(bits[r.IntN(len(bits))])
	}
	return b.String()
}

// holds checks the properties that every filtered text must have, however the text was divided into
// pieces.
func holds(t *testing.T, text string, cuts ...int) {
	t.Helper()
	whole, cut := filterText(text), filterText(text, cuts...)
	if strings.Join(cut.pieces, "") != cut.text || cut.text != whole.text || cut.removed != whole.removed || !reflect.DeepEqual(cut.cited, whole.cited) {
		t.Fatalf("%q cut at %v: emitted %q, text %q, %d removed\nwhole: %q, %d removed", text, cuts, cut.pieces, cut.text, cut.removed, whole.text, whole.removed)
	}
	if !utf8.ValidString(whole.text) {
		t.Fatalf("%q: text %q is not valid", text, whole.text)
	}
	// A second filter changes nothing. This shows that the text contains no invalid marker, and
	// that no removal has created a marker.
	if again := filterText(whole.text); again.text != whole.text || again.removed != 0 {
		t.Fatalf("%q: %q has %d markers that fail: %q", text, whole.text, again.removed, again.text)
	}
	runes := []rune(whole.text)
	for _, c := range whole.cited {
		if c.StartIndex < 0 || c.StartIndex > c.EndIndex || c.EndIndex > len(runes) {
			t.Fatalf("%q: citation of %d..%d in %d characters", text, c.StartIndex, c.EndIndex, len(runes))
		}
		if c.CitedText == "" || !strings.Contains(tested[c.ID], c.CitedText) || utf8.RuneCountInString(c.CitedText) > maxQuote {
			t.Fatalf("%q: %q is not in source %d", text, c.CitedText, c.ID)
		}
		if words := string(runes[c.StartIndex:c.EndIndex]); words != strings.TrimSpace(words) {
			t.Fatalf("%q: supported words %q", text, words)
		}
	}
}

func TestAnyText(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 1889))
	for range 8_000 {
		text := randomText(r)
		var cuts []int
		for at := range len(text) {
			if r.IntN(3) == 0 {
				cuts = append(cuts, at)
			}
		}
		holds(t, text, cuts...)
	}
}

func FuzzFilter(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f.Add(randomText(r), uint16(r.IntN(1<<16)))
	}
	f.Add(`x [1 "`+strings.Repeat("y", 700)+`[99]"]`, uint16(3))
	f.Fuzz(func(t *testing.T, text string, step uint16) {
		var cuts []int
		for at := 0; at < len(text); at += 1 + int(step)%7 {
			cuts = append(cuts, at)
		}
		holds(t, text, cuts...)
	})
}

func BenchmarkFilter(b *testing.B) {
	p := testPassages()
	text := strings.Repeat("The tower is 330 metres tall, and stands in Paris [1 \"330 metres tall\"]. `code` and more words follow here.\n", 40)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		f := newFilter(p.check, func(string) {})
		for at := 0; at < len(text); at += 5 {
			f.write(text[at:min(at+5, len(text))])
		}
		p.citations(f.finish(), f.marks, 0)
	}
}

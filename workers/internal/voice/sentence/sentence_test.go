package sentence_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/workers/internal/voice/sentence"
)

func cut(answer string, start int) []sentence.Segment {
	c := sentence.New(start)
	return append(c.Write(answer[start:]), c.Close()...)
}

// texts returns the segments of an answer as parts of the original text.
func texts(answer string) []string {
	var all []string
	for _, s := range cut(answer, 0) {
		all = append(all, answer[s.Start:s.End])
	}
	return all
}

var long = strings.Repeat("word ", 30) // 150 characters

func TestCuts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		want []string // all parts together equal the answer
	}{
		{"one", []string{"Yes."}},
		{"a short beginning waits for more", []string{"Yes. Of course it is. ", "And then some."}},
		{"a first sentence", []string{"The tower is tall. ", "It is in Paris. Many people go there."}},
		{"others are put together", []string{
			"The tower is tall. ", "It is in Paris, which is the capital of France, a country in Europe. Many people go there. ", "The end.",
		}},
		{"a first clause", []string{"When you think of all that there is to see in this old city, ", "you will want to stay. For long."}},
		{"no clause of a short sentence", []string{"First, it is tall, and old. ", "Second."}},
		{"quotes and brackets close", []string{"He said \"it is tall.\" ", "(It is.) She agreed."}},
		{"a question in a sentence", []string{"\"Is it tall?\" he asked. ", "It is."}},
		{"citations", []string{"The tower is 330 metres tall [1]. [2] ", "It is in Paris.[3, 4] It is old."}},
		{"a link begins a sentence", []string{"The tower is tall. ", "[Read more](https://a.example/b.c) about it."}},
		{"no sentence ends in a link", []string{"See [the page. Of it](https://a.example/x.y?z) now. ", "Then go."}},
		{"nor in code", []string{"Use `fmt.Println(\"a. B\")` here. ", "Then go."}},
		{"abbreviations", []string{"Dr. Smith and Mrs. Jones met e.g. Mr. Brown vs. Prof. Green. ", "They talked."}},
		{"initials", []string{"J. R. Tolkien wrote it. ", "He did."}},
		{"numbers", []string{"It costs 3.14 or 1,000.50 at 10.30. ", "No. 5 is old, in the 5. Arrondissement. No. Not so."}},
		{"years end", []string{"It was built in 1889. ", "It stands."}},
		{"addresses", []string{"Go to www.example.com/a.b?c=d. ", "Or https://example.com."}},
		{"left open", []string{"Well... maybe it is so… or not... ", "Yes."}},
		{"many marks", []string{"Really?! ", "You think so?? Yes!!! I do."}},
		{"Chinese", []string{"铁塔高三百三十米。", "它在巴黎。「很高！」他说。"}},
		{"Japanese", []string{"こんにちは、世界。", "元気ですか？はい。"}},
		{"Arabic", []string{"كم يبلغ طول البرج؟ ", "طوله ثلاثمئة متر."}},
		{"Hindi", []string{"मीनार ऊँची है। ", "वह पेरिस में है।"}},
		{"German", []string{"Das ist z.B. am 3. Oktober bzw. Nr. 7 so. ", "Ja."}},
		{"Spanish", []string{"¿Qué hora es? ", "¡Son las dos! Bien."}},
		{"Greek", []string{"Τι ώρα είναι; ", "Είναι δύο."}},
		{"a heading", []string{"# The tower\n\n", "It is tall."}},
		{"a list", []string{"There are these:\n\n", "- one apple\n- two pears, which are larger\n", "- three plums\n- four figs\n"}},
		{"a numbered list", []string{"There are:\n", "1. One apple, as red as apples are.\n2. Two pears.\n", "3. Three plums."}},
		{"a line that was broken", []string{"The tower is\nvery tall. ", "Yes."}},
		{"code", []string{"Do this:\n\n", "```go\nx := 1. Then\n\nfmt.Print(x)\n```\n", "It prints one."}},
		{"code from the first", []string{"~~~\na. B\n~~~\n", "That is it."}},
		{"code that does not end", []string{"Do this:\n", "```\nx. Y"}},
		{"code behind little", []string{"So:\n", "```\nx\n```\n", "Yes."}},
		{"code in a list", []string{"- Do this:\n  ", "```\n  x\n  ```\n", "- Then that."}},
		{"longer marks close", []string{"````\n```\nx\n```\n````\n", "Then."}},
		{"a table", []string{"Here it is:\n\n", "| a | b |\n|---|---|\n| 1 | 2. Then |\n| long enough to end here now | 4 |\n", "Done."}},
		{"too long, at a space", []string{strings.Repeat("word ", 60), strings.Repeat("word ", 10) + "end."}},
		{"too long, at a sentence", []string{"It is tall. ", "It is old. ", "A " + long + long[:140] + "end."}},
		{"too long, at a clause", []string{"It is tall. ", "A " + long + ", ", long + "end."}},
		{"bold", []string{"**The tower is tall.** ", "*It is old.* Yes."}},
		{"white space alone", []string{" \n "}},
		{"marks alone", []string{"... !! ??"}},
	} {
		answer := strings.Join(c.want, "")
		if got := texts(answer); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
	if got := cut("", 0); len(got) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestLengths(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		strings.Repeat("很", 1000), strings.Repeat("很高，", 500), strings.Repeat("x", 3000), strings.Repeat("[", 2000), strings.Repeat("a `b ", 900),
		strings.Repeat("word ", 1000), strings.Repeat("A sentence. ", 300), strings.Repeat("\n", 2000), strings.Repeat("สวัสดี", 400),
	} {
		for _, s := range cut(answer, 0) {
			if n := utf8.RuneCountInString(answer[s.Start:s.End]); n > 640 && strings.TrimSpace(answer) != "" {
				t.Errorf("%.20q: a segment of %d characters", answer, n)
			}
			if n := utf8.RuneCountInString(s.Text); n > 640 {
				t.Errorf("%.20q: %d characters are spoken", answer, n)
			}
		}
	}
}

// TestFirstIsEarly: the first segment is complete without waiting for the second sentence.
func TestFirstIsEarly(t *testing.T) {
	t.Parallel()
	c := sentence.New(0)
	if got := c.Write("The tower is tall."); len(got) != 0 {
		t.Errorf("a decimal, or more, may follow: %+v", got)
	}
	got := c.Write(" I")
	if len(got) != 1 || got[0].Text != "The tower is tall." || got[0].End != 19 {
		t.Errorf("%+v", got)
	}
}

func TestSpeak(t *testing.T) {
	t.Parallel()
	for markdown, want := range map[string]string{
		"Plain words.":                                             "Plain words.",
		"**Bold** and *thin* and ***both***.":                      "Bold and thin and both.",
		"__Bold__ and _thin_ and snake_case_name.":                 "Bold and thin and snake case name.",
		"~~Not~~ so, ~5 of 5 * 3 or 5*3.":                          "Not so, ~5 of 5 * 3 or 5*3.",
		"It is tall [1]. Old [2, 3]!":                              "It is tall. Old!",
		"Tall[^1] 【4†source】.":                                     "Tall.",
		"See [the page](https://a.example/x_(y)?z \"Title\") now.": "See the page now.",
		"See [the **bold** [1] page][ref] now.":                    "See the bold page now.",
		"![A tower](tower.png) is here.":                           "A tower is here.",
		"Go to https://www.Example.com/a/b?c=d#e, or www.b.org.":   "Go to example.com, or b.org.",
		"At <https://example.com/x> or <b>there</b><br>now.":       "At example.com or there now.",
		"a < b and b > c":                                          "a < b and b > c",
		"Use `go_test ./...` or ``a ` b``.":                        "Use go test ./... or a ` b.",
		"A lone ` stays away":                                      "A lone stays away",
		"Escaped \\*stars\\* \\[1\\].":                             "Escaped *stars* [1].",
		"Fish &amp; chips &lt;3 &unknown;":                         "Fish & chips <3 &unknown;",
		"Great 🎉! 👩‍🚀👍🏽 Yes ✅":                                     "Great! Yes",
		"🇫🇷 France, 1️⃣ first":                                     "France, 1 first",
		"20 °C, ©, €5, ½ → more":                                   "20 °C, ©, €5, ½ more",
		"# Heading #\n\nText":                                      "Heading. Text",
		"## What is it?\nA tower":                                  "What is it? A tower",
		"- one\n- two;\n* [ ] three\n":                             "one. two; three",
		"1. First\n2) Second":                                      "1. First. 2) Second",
		"> quoted\n> > twice":                                      "quoted twice",
		"broken\nline":                                             "broken line",
		"一行\n二行":                                                   "一行。二行",
		"| a | **b** |\n|:--|--:|\n| 1 | |":                        "a, b. 1",
		"| a\\|b | c |":                                            "a/b, c",
		"Title\n===\nText":                                         "Title. Text",
		"above\n\n---\n\nbelow":                                    "above. below",
		"```go\nx := 1\n```\n":                                     "",
		"~~~\nx":                                                   "",
		"🎉🎉":                                                       "",
		"...":                                                      "",
		"":                                                         "",
		"[1]":                                                      "",
		"* * *":                                                    "",
		"[sic] and [x":                                             "sic and x",
		"who h http www":                                           "who h http www",
		"2023-05-01 at 10:30, 50%, $3.50 #42":                      "2023-05-01 at 10:30, 50%, $3.50 #42",
		"C'est vrai !":                                             "C'est vrai !",
		"\xff\xfe broken":                                          "\ufffd\ufffd broken",
	} {
		if got := sentence.Speak(markdown); got != want {
			t.Errorf("%q:\n got %q\nwant %q", markdown, got, want)
		}
	}
}

// pieces are parts from which random answers are made. Some are hostile.
var pieces = []string{
	"The tower is tall. ", "Dr. Smith said so, and he knows; it is true! ", "Is it? ", "\n\n", "\n", "- item\n", "1. first\n", "## Heading\n", "```go\nx. Y\n```\n",
	"`a. B` ", "[1] ", "[link. X](https://a.example/b) ", "| a | b |\n", "|---|---|\n", "铁塔很高。", "，", "🎉 ", "👩‍🚀", "**bold.** ", "...", " ", "x", "```", "~~~\n", "[", "](", "`",
	"é", "\xff", "\xe9\x93", "؟ ", "। ", "3.14 ", "A very long clause without any end that goes on, and on, and on, as such clauses do, ", "> ", "\r\n", "\t",
	strings.Repeat("long ", 40),
}

func answerFor(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(60) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

func TestProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		check(t, answerFor(r), r)
	}
}

func FuzzCutter(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(answerFor(rand.New(rand.NewPCG(seed, 8))), seed)
	}
	f.Fuzz(func(t *testing.T, answer string, seed uint64) { check(t, answer, rand.New(rand.NewPCG(seed, 1))) })
}

// check verifies that segments cover the whole answer. They must not depend on the pieces in which
// the answer arrives, or on the segment at which another process continues.
func check(t *testing.T, answer string, r *rand.Rand) {
	t.Helper()
	whole := cut(answer, 0)
	at := 0
	for _, s := range whole {
		if s.Start != at || s.End <= s.Start || s.Text != sentence.Speak(answer[s.Start:s.End]) {
			t.Fatalf("%q: %+v begins not at %d", answer, s, at)
		}
		at = s.End
	}
	if at != len(answer) {
		t.Fatalf("%q: ends at %d of %d", answer, at, len(answer))
	}
	c := sentence.New(0)
	var got []sentence.Segment
	for rest := answer; rest != ""; {
		n := min(len(rest), 1+r.IntN(1+r.IntN(12)))
		got = append(got, c.Write(rest[:n])...)
		rest = rest[n:]
	}
	if got = append(got, c.Close()...); !slices.Equal(got, whole) {
		t.Fatalf("%q in pieces:\n got %+v\nwant %+v", answer, got, whole)
	}
	for i, s := range whole {
		if rest := cut(answer, s.Start); !slices.Equal(rest, whole[i:]) {
			t.Fatalf("%q taken up at %d:\n got %+v\nwant %+v", answer, s.Start, rest, whole[i:])
		}
	}
}

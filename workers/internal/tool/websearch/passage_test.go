package websearch

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// filler returns text that matches no query of these tests.
func filler(sentences int) string {
	return strings.TrimSpace(strings.Repeat("Nothing of interest stands in this part of the page. ", sentences))
}

func TestPassagesFit(t *testing.T) {
	t.Parallel()
	const zhFiller = "这一段没有什么重要的内容。"
	for _, c := range []struct{ name, query, maxHits, around string }{
		{"english", "how long is the river Elm", "The river Elm is 214 km long.", filler(100)},
		{"other forms", "lengths of rivers", "This river has a length of 214 km.", filler(100)},
		{"german", "Höhe Fernsehturm Grösse", "Der Fernsehturm hat eine Größe von 368 Metern.", filler(100)},
		{"accents left out", "cafe munchen", "Das Café liegt in München.", filler(100)},
		{"chinese", "三峡水库流量", "2020年汛期，三峡水库最大入库流量达每秒75000立方米。", strings.Repeat(zhFiller, 300)},
		{"japanese", "富士山の高さ", "富士山は標高3776メートルです。", strings.Repeat("ここには何もありません。", 300)},
		{"korean", "한강 길이", "한강의 길이는 494킬로미터이다.", strings.Repeat("여기에는 아무것도 없습니다. ", 200)},
		{"arabic", "طول النيل", "يبلغ طول نهر النيل حوالي 6650 كيلومترا.", strings.Repeat("لا يوجد شيء مهم في هذا الجزء. ", 200)},
		{"thai", "แม่น้ำเจ้าพระยา", "แม่น้ำเจ้าพระยายาว 372 กิโลเมตร", strings.Repeat("ไม่มีอะไรสำคัญ\n", 300)},
		{"emoji", "party 🎉 price", "The party 🎉🎉 has a price of 12 €.", strings.Repeat("😀 nothing here. ", 400)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := c.around + "\n\n" + c.maxHits + "\n\n" + c.around
			found := passages(text, c.query)
			if len(found) == 0 || !strings.Contains(found[0], c.maxHits) {
				t.Errorf("found %q", found)
			}
			checkPassages(t, text, found)
		})
	}
}

func TestTwoPassages(t *testing.T) {
	t.Parallel()
	text := "The Elm bridge opened.\n\n" + filler(80) + "\n\nThe bridge over the Elm closed again."
	if found := passages(text, "Elm bridge"); len(found) != 2 {
		t.Errorf("apart: found %q", found)
	}
	near := "The Elm bridge opened.\n\n" + filler(8) + "\n\nThe bridge over the Elm closed again.\n\n" + filler(80)
	found := passages(near, "Elm bridge")
	if len(found) != 1 || !strings.Contains(found[0], "opened") || !strings.Contains(found[0], "closed") {
		t.Errorf("adjacent: found %q", found)
	}
	if found := passages(filler(200), "zebra"); len(found) != 1 || !strings.HasPrefix(filler(200), found[0]) {
		t.Errorf("no fit: found %q", found)
	}
	if found := passages("Short.", "zebra"); len(found) != 1 || found[0] != "Short." {
		t.Errorf("short: found %q", found)
	}
	if found := passages("", "zebra"); found != nil {
		t.Errorf("empty: found %q", found)
	}
}

// checkPassages checks the conditions that all passages must satisfy.
func checkPassages(t *testing.T, text string, found []string) {
	t.Helper()
	if len(found) > maxPassages || text != "" && len(found) == 0 {
		t.Errorf("%d passages", len(found))
	}
	for _, p := range found {
		if n := utf8.RuneCountInString(p); n == 0 || n > maxPassage || !utf8.ValidString(p) {
			t.Errorf("passage of %d characters", n)
		}
		if !strings.Contains(text, p) {
			t.Errorf("passage is not a part of the text: %q", p)
		}
	}
}

// TestPassagesAreOfTheText checks that passages are exact parts of the text. It uses random texts
// with words, punctuation and line breaks in many scripts.
func TestPassagesAreOfTheText(t *testing.T) {
	t.Parallel()
	parts := []string{
		"word", "Elm", "bridge", "3.14", "Dr.", " ", " ", " ", ". ", "。", "！", "؟ ", "\n", "\n\n", "长江", "大桥", "Größe", "e\u0301", "نهر", "แม่น้ำ", "🎉", "👩\u200d🔧",
		"(", "”", "\t", "\u3000", "한강", "はし", strings.Repeat("x", 700), strings.Repeat("字", 900), strings.Repeat("e\u0301", 300), strings.Repeat(" \u3000", 400), "|",
	}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 4))
		var b strings.Builder
		for range r.IntN(600) {
			b.WriteString(parts[r.IntN(len(parts))])
			if r.IntN(3) > 0 {
				b.WriteByte(' ')
			}
		}
		text := strings.TrimSpace(b.String())
		found := passages(text, "the Elm 大桥 bridge نهر")
		checkPassages(t, text, found)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		if again := passages(text, "the Elm 大桥 bridge نهر"); strings.Join(again, "\x00") != strings.Join(found, "\x00") {
			t.Fatalf("seed %d: another answer the second time", seed)
		}
	}
}

func TestEachWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"The Café-bar, 3.14!": "the cafe bar 3 14",
		"Straße, GROẞ":        "strasse gross",
		"长江大桥":                "长江 江大 大桥",
		"桥":                   "桥",
		"GPT模型v2":             "gpt 模型 v2",
		"النيل نهر":           "نيل نهر",
		"한강":                  "한강",
		"":                    "",
	} {
		var got []string
		eachWord(text, func(w string) { got = append(got, w) })
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

package analysis_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"parley/workers/internal/analysis"
)

func texts(terms []analysis.Lexeme) []string {
	all := make([]string, 0, len(terms))
	for _, term := range terms {
		all = append(all, term.Text)
	}
	return all
}

func TestTerms(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		language, text string
		want           []string
	}{
		"nothing":                 {"en", " ... -- ' ", []string{}},
		"stems":                   {"en", "The pumps were running", []string{"pump", "run"}},
		"no language":             {"", "The pumps were running", []string{"the", "pumps", "were", "running"}},
		"an unknown language":     {"tlh", "The pumps", []string{"the", "pumps"}},
		"regions":                 {"en-US", "pumps", []string{"pump"}},
		"kin":                     {"nb", "skolene", []string{"skol"}},
		"case and width":          {"", "ＰＵＭＰ Straße STRASSE", []string{"pump", "strasse", "strasse"}},
		"marks":                   {"", "café CAFÉ cafe\u0301 Łódź", []string{"cafe", "cafe", "cafe", "lodz"}},
		"marks that are letters":  {"", "йод ёлка हिन्दी が", []string{"йод", "елка", "हिन्दी", "が"}},
		"pointed Arabic":          {"", "كِتَاب أحمد", []string{"كتاب", "احمد"}},
		"with and without marks":  {"es", "canción", []string{"cancion"}},
		"elisions and genitives":  {"fr", "l'école qu’il", []string{"ecol"}},
		"genitives":               {"en", "the user's pump", []string{"user", "pump"}},
		"other apostrophes":       {"", "don't п'ять", []string{"dont", "пять"}},
		"codes":                   {"en", "ERR-4021", []string{"err-4021", "err", "4021"}},
		"codes without a dash":    {"en", "ERR4021", []string{"err4021", "err", "4021"}},
		"snake case":              {"en", "max_chunk_size", []string{"max_chunk_size", "max", "chunk", "size"}},
		"camel case":              {"en", "getUserNames HTTPServer", []string{"getusernam", "get", "user", "name", "httpserver"}},
		"versions":                {"en", "v1.2.3 2.15", []string{"v1.2.3", "1.2.3", "2.15"}},
		"numbers":                 {"", "1,234.56 1.234,56 3,14 1234", []string{"1.234.56", "1234.56", "1.234.56", "1234.56", "3.14", "1234"}},
		"dates":                   {"", "2026-11-21", []string{"2026-11-21", "2026", "11", "21"}},
		"addresses":               {"", "jane.doe@example.com", []string{"jane.doe@example.com", "jane", "doe", "example", "com"}},
		"initials":                {"", "U.S. e.g.", []string{"us", "eg"}},
		"hyphens":                 {"en", "e-mail well-known", []string{"email", "mail", "wellknown", "well", "known"}},
		"names with signs":        {"en", "C++ C# c", []string{"c++", "c#", "c"}},
		"names in capitals":       {"en", "IT is it WHO", []string{"it", "who"}},
		"Chinese":                 {"zh", "数据库", []string{"数", "据", "数据", "库", "据库"}},
		"Japanese and Latin":      {"ja", "東京のAPI", []string{"東", "京", "東京", "京の", "api"}},
		"Korean":                  {"ko", "데이터 값", []string{"데이", "이터", "값"}},
		"Thai":                    {"th", "ปั๊มน้ำ", []string{"ปั๊ม", "มน้\u0E4D\u0E32"}},
		"what is not to be seen":  {"de", "Schiff\u00ADfahrt", []string{"schifffahrt"}},
		"sentences run together":  {"", "end.Next", []string{"end.next", "end", "next"}},
		"letters that are broken": {"", "a\xff\xfeb", []string{"a", "b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := texts(analysis.Terms(tt.language, tt.text)); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestPositions(t *testing.T) {
	t.Parallel()
	got := analysis.Terms("en", "Press the ERR-4021 key, 数据库")
	want := []analysis.Lexeme{{"press", 1}, {"err-4021", 3}, {"err", 3}, {"4021", 4}, {"key", 5}, {"数", 6}, {"据", 7}, {"数据", 6}, {"库", 8}, {"据库", 7}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":                  {"?!", []string{}},
		"stop words":               {"How do I reset the pump?", []string{"reset", "pump"}},
		"of one language":          {"What is the die casting pressure?", []string{"die", "casting", "pressure"}},
		"nothing but stop words":   {"To be or not to be", []string{"to", "be", "or", "not"}},
		"names in capitals":        {"Does the IT team know?", []string{"it", "team", "know"}},
		"all in capitals":          {"HOW DO I RESET IT", []string{"reset"}},
		"once each":                {"pump Pump PUMP", []string{"pump"}},
		"codes":                    {"what is ERR-4021", []string{"err-4021", "err", "4021"}},
		"Chinese":                  {"数据库备份", []string{"数据", "据库", "库备", "备份"}},
		"a character by itself":    {"水", []string{"水"}},
		"marks and case are taken": {"Où est L'ÉCOLE", []string{"ecole"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := []string{}
			for _, word := range analysis.Query(tt.text) {
				got = append(got, word.Text)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestQueryIsBounded(t *testing.T) {
	t.Parallel()
	words := analysis.Query(strings.Join(slices.Collect(maps.Values(samples)), " "))
	if len(words) != 32 {
		t.Errorf("%d words, want 32", len(words))
	}
	for _, word := range words {
		if len(word.Lexemes) == 0 || len(word.Lexemes) > 12 {
			t.Errorf("%s has %d lexemes", word.Text, len(word.Lexemes))
		}
	}
}

// A query finds a document even if the document spells the words of the query differently.
func TestFound(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ language, text, query string }{
		"another number":          {"en", "The pump is running", "pumps"},
		"another tense":           {"en", "It was configured", "configuring"},
		"without marks":           {"es", "canciones y canción", "cancion"},
		"with marks":              {"fr", "ETUDIANTS", "étudiant"},
		"umlauts":                 {"de", "Häuser", "Haus"},
		"capitals":                {"tr", "IŞIK", "ışık"},
		"the number of a code":    {"en", "ERR-4021", "4021"},
		"a code without its dash": {"en", "ERR4021", "err-4021"},
		"a code with a space":     {"en", "ERR 4021", "ERR4021"},
		"a part of a name":        {"en", "max_chunk_size", "chunks"},
		"a name in small letters": {"en", "getUserName", "getusername"},
		"a number without commas": {"en", "1,234", "1234"},
		"the other comma":         {"de", "3,14", "3.14"},
		"e-mail":                  {"en", "e-mail", "email"},
		"email":                   {"en", "email", "e-mail"},
		"Russian cases":           {"ru", "насосами", "насос"},
		"Polish cases":            {"pl", "zaworami", "zawory"},
		"Greek cases":             {"el", "βαλβίδες", "βαλβίδα"},
		"Arabic articles":         {"ar", "المضخة", "مضخة"},
		"a word in Chinese":       {"zh", "更换过滤器之前", "过滤器"},
		"a character of it":       {"zh", "关闭水泵", "水"},
		"a word in Thai":          {"th", "ตรวจสอบว่าวาล์วปิดอยู่", "วาล์ว"},
		"full width":              {"ja", "ＡＰＩキー", "api"},
		"half width":              {"ja", "ﾌｨﾙﾀｰ", "フィルター"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			terms := texts(analysis.Terms(tt.language, tt.text))
			if !slices.ContainsFunc(analysis.Query(tt.query), func(w analysis.Word) bool { return meet(w.Lexemes, terms) }) {
				t.Errorf("%q is indexed as %q, %q asks for %v", tt.text, terms, tt.query, analysis.Query(tt.query))
			}
		})
	}
}

func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool { return slices.Contains(b, one) })
}

// A query for any word of a text finds the text, in whichever language the text is indexed. The
// only exception is a stop word of that language.
func TestEveryWordIsFound(t *testing.T) {
	t.Parallel()
	for language, text := range samples {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			for _, indexed := range []string{language, "en", ""} {
				missing, words := 0, 0
				for word := range strings.FieldsSeq(text) {
					terms := texts(analysis.Terms(indexed, word))
					if len(terms) == 0 {
						missing++
						continue
					}
					words++
					for _, asked := range analysis.Query(word) {
						if !meet(asked.Lexemes, terms) {
							t.Errorf("in %q, %q is indexed as %q and queried as %q", indexed, word, terms, asked.Lexemes)
						}
					}
				}
				if missing > words*2 || indexed == "" && missing > 0 {
					t.Errorf("in %q %d words are indexed and %d are not", indexed, words, missing)
				}
			}
		})
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for language, text := range samples {
		if got := analysis.Detect(text); got != language {
			t.Errorf("%s is detected as %q", language, got)
		}
	}
	unsure := map[string]string{
		"nothing":  "",
		"a word":   "pump",
		"a name":   "Johann Sebastian Bach",
		"numbers":  strings.Repeat("12.5 | 2026-11-21 | 33 % | kg\n", 40),
		"code":     "func (c *Chunker) take() []domain.Passage {\n\tif len(c.made) == 0 {\n\t\treturn nil\n\t}\n}\nvar x = map[string]int{}\nfor i := range n { s += a[i] }",
		"hex":      strings.Repeat("deadbeef cafe0123 9f86d081884c7d65 ", 20),
		"babble":   "asdf qwer zxcv uiop hjkl vbnm tyui ghjk asdf qwer zxcv uiop hjkl",
		"mixtures": "Насос нужно выключить сейчас. The pump has to be off now. Η αντλία πρέπει να είναι κλειστή.",
		"codes":    "ABC-1234 DEF-5678 GHI-9012 JKL-3456 MNO-7890 PQR-1234 STU-5678",
	}
	for name, text := range unsure {
		if got := analysis.Detect(text); got != "" {
			t.Errorf("%s: detected as %q", name, got)
		}
	}
}

func TestAtOnce(t *testing.T) {
	t.Parallel()
	want := analysis.Terms("en", samples["en"])
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for language, text := range samples {
				analysis.Terms(language, text)
			}
			if !slices.Equal(analysis.Terms("en", samples["en"]), want) {
				t.Error("concurrent calls return different terms")
			}
		})
	}
	all.Wait()
}

// FuzzTerms checks that no text causes a panic, and that each indexed word is found.
func FuzzTerms(f *testing.F) {
	for language, text := range samples {
		f.Add(language, text)
	}
	f.Add("en", "ERR-4021 v1.2.3 a@b.c d_e --no-color 1,234.5 C++ l'é\u0301t\u00ADe")
	f.Add("tr", "İI'ıi \u0301\u200c'.-_@")
	f.Fuzz(func(t *testing.T, language, text string) {
		if len(text) > 2000 {
			return
		}
		terms, before := analysis.Terms(language, text), 0
		for _, term := range terms {
			if term.Text == "" || len(term.Text) > 400 || !utf8.ValidString(term.Text) || term.Position < 1 || term.Position < before-len(text) {
				t.Fatalf("%q at %d", term.Text, term.Position)
			}
			before = term.Position
		}
		for word := range strings.FieldsSeq(text) {
			indexed := texts(analysis.Terms(language, word))
			for _, asked := range analysis.Query(word) {
				if len(indexed) > 0 && !meet(asked.Lexemes, indexed) && !slices.Equal(texts(analysis.Terms(language, asked.Text)), []string{}) {
					t.Errorf("%q is indexed as %q and queried as %q", word, indexed, asked.Lexemes)
				}
			}
		}
		analysis.Detect(text)
		if words := analysis.Query(text); len(words) > 32 {
			t.Errorf("%d words", len(words))
		}
	})
}

func BenchmarkTerms(b *testing.B) {
	page := strings.Repeat(samples["en"]+" See ERR-4021 and max_chunk_size in v1.2.3. ", 3000/240+1)[:3000]
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		analysis.Terms("en", page)
	}
}

func BenchmarkTermsOfNewWords(b *testing.B) {
	words := strings.Fields(samples["en"] + samples["de"] + samples["fr"])
	n := 0
	for b.Loop() {
		analysis.Terms("en", words[n%len(words)]+strings.Repeat("x", n%7)+words[(n/7)%len(words)])
		n++
	}
}

func BenchmarkQuery(b *testing.B) {
	for b.Loop() {
		analysis.Query("How do I change the filter of a pump that reports ERR-4021?")
	}
}

func BenchmarkDetect(b *testing.B) {
	page := strings.Repeat(samples["en"], 15)
	for b.Loop() {
		analysis.Detect(page)
	}
}

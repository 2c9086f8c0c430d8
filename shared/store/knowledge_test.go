package store_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/knowledgedb"
	"parley/shared/testkit"
)

// readyDocument adds a document with chunks and makes it ready.
func (b *testEnv) readyDocument(metadata map[string]string, chunks ...knowledgedb.NewChunk) string {
	b.Helper()
	content := b.upload([]byte(id.New(id.Document)))
	doc := b.add(knowledgedb.NewDocument{Name: "d", Content: &content, Metadata: metadata})[0].Document.ID
	held := b.claimDocument()
	if held.ID != doc {
		b.Fatalf("claimed %s", held.ID)
	}
	for part := range slices.Chunk(chunks, 100) {
		if kept, err := b.s.Knowledge.AddChunks(b.Context(), held, part, "m", nil, 0); err != nil || !kept {
			b.Fatalf("adding chunks: %v, %v", kept, err)
		}
	}
	if kept, err := b.s.Knowledge.FinishDocument(b.Context(), held, knowledgedb.FinishedDocument{Model: "m", Terms: termsIn(chunks)}); err != nil || !kept {
		b.Fatalf("finishing: %v, %v", kept, err)
	}
	return doc
}

// asked converts a question to query words. Spaces separate the words, and | the lexemes of one
// word.
func asked(question string) (out []knowledgedb.QueryWord) {
	for w := range strings.FieldsSeq(question) {
		lexemes := strings.Split(w, "|")
		out = append(out, knowledgedb.QueryWord{Text: lexemes[0], Lexemes: lexemes})
	}
	return out
}

// shown returns the texts of hits in order.
func (b *testEnv) shown(hits []knowledgedb.Hit, err error) string {
	b.Helper()
	if err != nil {
		b.Fatalf("searching: %v", err)
	}
	ids := make([]int64, len(hits))
	for i, h := range hits {
		if ids[i] = h.ChunkID; h.Score <= 0 || i > 0 && h.Score > hits[i-1].Score {
			b.Errorf("scores %+v", hits)
		}
	}
	passages, err := b.s.Knowledge.Passages(b.Context(), b.org, ids)
	if err != nil {
		b.Fatalf("reading passages: %v", err)
	}
	out := make([]string, len(passages))
	for i, p := range passages {
		out[i] = p.Text
	}
	return strings.Join(out, " / ")
}

func (b *testEnv) wantFound(question, want string) {
	b.Helper()
	got := b.shown(b.s.Knowledge.SearchText(b.Context(), knowledgedb.SearchScope{OrganizationID: b.org}, asked(question), 10))
	if got != want {
		b.Errorf("%s: found %q, want %q", question, got, want)
	}
}

func TestWordsRank(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	heading := chunkFor(6, "the", "rest")
	heading.Terms = append(heading.Terms, knowledgedb.Term{Lexeme: "boxing", Positions: []int{1}, Heading: true})
	chunks := []knowledgedb.NewChunk{
		chunkFor(0, "rope", "and", "bag"),
		chunkFor(1, "rope", "tied", "rope", "bell"),
		chunkFor(2, "rope", "ring"),
		chunkFor(3, "ring", "gloves"),
		chunkFor(4, append([]string{"gloves"}, strings.Fields(strings.Repeat("long ", 1)+"a b c d e f g h i j k l m n o p q s t u v w x y z")...)...),
		chunkFor(5, "boxing", "match"), heading,
	}
	b.readyDocument(nil, chunks...)
	for question, want := range map[string]string{
		"bell":         "rope tied rope bell",
		"rope bell":    "rope tied rope bell / rope ring / rope and bag", // the chunk with the rare word comes first, then the shorter chunk
		"rope ring":    "rope ring / ring gloves / rope tied rope bell / rope and bag",
		"boxing":       "the rest / boxing match", // a word in a heading counts more
		"bag|gloves":   "ring gloves / rope and bag / gloves long a b c d e f g h i j k l m n o p q s t u v w x y z",
		"none":         "",
		"none bell":    "rope tied rope bell",
		"":             "",
		"match|match":  "boxing match",
		"ring|missing": "rope ring / ring gloves",
	} {
		got := b.shown(b.s.Knowledge.SearchText(t.Context(), knowledgedb.SearchScope{OrganizationID: b.org}, asked(question), 10))
		if question == "bag|gloves" || question == "ring|missing" { // the hits differ only in their length
			a, w := strings.Split(got, " / "), strings.Split(want, " / ")
			slices.Sort(a)
			slices.Sort(w)
			got, want = strings.Join(a, " / "), strings.Join(w, " / ")
		}
		if got != want {
			t.Errorf("%s: found %q, want %q", question, got, want)
		}
	}
	if hits, err := b.s.Knowledge.SearchText(t.Context(), knowledgedb.SearchScope{OrganizationID: b.org}, asked("rope"), 2); err != nil || len(hits) != 2 {
		t.Errorf("the best two: %v, %v", hits, err)
	}
}

// Text from users and documents is never parsed as query syntax. Text that PostgreSQL cannot store
// is skipped.
func TestWordsAreNotParsedAsSyntax(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	hostile := []string{
		`'`, `\`, `a'b`, `a\`, `\'`, `a:*`, `a&b`, `!a`, `a|b`, `(`, `<->`, `a:1A`, `$1`, `%s`, `{"x"}`, `a,b`, `NULL`, "''", `\\`, "tab\ta", " ", "🥊", "中文", "é",
		strings.Repeat("x", 2040),
	}
	for n, lexeme := range hostile {
		chunk := knowledgedb.NewChunk{Passage: domain.Passage{Chunk: 0, Text: fmt.Sprint(n, "=", lexeme)}, Terms: []knowledgedb.Term{{Lexeme: lexeme, Positions: []int{1}}}}
		b.readyDocument(nil, chunk)
	}
	scope := knowledgedb.SearchScope{OrganizationID: b.org}
	for n, lexeme := range hostile {
		words := []knowledgedb.QueryWord{{Text: lexeme, Lexemes: []string{lexeme}}}
		if got, want := b.shown(b.s.Knowledge.SearchText(t.Context(), scope, words, 10)), fmt.Sprint(n, "=", lexeme); got != want {
			t.Errorf("%q: found %q", lexeme, got)
		}
		if hits, err := b.s.Knowledge.SearchSimilar(t.Context(), scope, words, 10); err != nil || len(hits) > 0 {
			t.Errorf("%q is known: %v, %v", lexeme, hits, err)
		}
	}
	for _, lexeme := range []string{"", "\x00", "a\x00", "\xff", strings.Repeat("x", 2041), strings.Repeat("x", 1<<20)} {
		words := []knowledgedb.QueryWord{{Text: lexeme, Lexemes: []string{lexeme, "nothing"}}}
		scope := knowledgedb.SearchScope{OrganizationID: b.org, DocumentIDs: []string{lexeme}, Metadata: map[string]string{lexeme: lexeme}}
		for what, search := range b.searches(scope, words) {
			if hits, err := search(); err != nil || len(hits) > 0 {
				t.Errorf("%s for %.10q: %v, %v", what, lexeme, hits, err)
			}
		}
	}
}

// searches lists the ways to search for words.
func (b *testEnv) searches(scope knowledgedb.SearchScope, words []knowledgedb.QueryWord) map[string]func() ([]knowledgedb.Hit, error) {
	return map[string]func() ([]knowledgedb.Hit, error){
		"text":    func() ([]knowledgedb.Hit, error) { return b.s.Knowledge.SearchText(b.Context(), scope, words, 10) },
		"similar": func() ([]knowledgedb.Hit, error) { return b.s.Knowledge.SearchSimilar(b.Context(), scope, words, 10) },
		"vectors": func() ([]knowledgedb.Hit, error) {
			return b.s.Knowledge.SearchVectors(b.Context(), scope, "m", []float32{1, 0}, 10)
		},
	}
}

func TestChunksBeyondWhatPostgreSQLTakes(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	c := knowledgedb.NewChunk{Passage: domain.Passage{Text: "all of it"}}
	for i := range 2000 {
		c.Terms = append(c.Terms, knowledgedb.Term{Lexeme: fmt.Sprintf("%d%s", i, strings.Repeat("x", 2000)), Positions: []int{i + 1}})
	}
	often := knowledgedb.Term{Lexeme: "often", Positions: []int{0, -1, 1 << 40}}
	for i := range 100_000 {
		often.Positions = append(often.Positions, i)
	}
	c.Terms = append([]knowledgedb.Term{often, {Lexeme: "nowhere"}, {Lexeme: "\x00"}, {Lexeme: "often", Heading: true, Positions: []int{3}}}, c.Terms...)
	b.readyDocument(nil, c)
	for _, word := range []string{"often", "nowhere", "0" + strings.Repeat("x", 2000)} {
		b.wantFound(word, "all of it")
	}
}

func TestSearchingAnUnknownSpelling(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.readyDocument(nil, chunkFor(0, "zylinder", "interface"), chunkFor(1, "zylinder", "card"), chunkFor(2, "postgresql"), chunkFor(3, "interface"))
	scope := knowledgedb.SearchScope{OrganizationID: b.org}
	for question, want := range map[string]string{
		"zylidner":               "zylinder card / zylinder interface",
		"zylidner interface":     "zylinder interface / zylinder card", // a hit must contain a word that is similar to the misspelled one
		"postgressql":            "postgresql",
		"interface":              "", // the word is known, so no similar words are searched
		"zylinder interface":     "",
		"zebra":                  "",
		"card 12345":             "",
		"zylidner|zylidner card": "zylinder card / zylinder interface",
	} {
		got := b.shown(b.s.Knowledge.SearchSimilar(t.Context(), scope, asked(question), 10))
		parts := strings.Split(got, " / ")
		if question == "zylidner" { // the hits are equally good
			slices.Sort(parts)
		}
		if got = strings.Join(parts, " / "); got != want {
			t.Errorf("%s: found %q, want %q", question, got, want)
		}
	}
}

func TestScopesOfSearches(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	vector := func(c knowledgedb.NewChunk) knowledgedb.NewChunk { c.Vector = []float32{1, 0}; return c }
	one := b.readyDocument(map[string]string{"lang": "en", "year": "2026"}, vector(chunkFor(0, "one", "word")))
	two := b.readyDocument(map[string]string{"lang": "de"}, vector(chunkFor(0, "two", "word")))
	other := newEnvOn(t, b.s, b.raw, "bob@example.com")
	foreign := other.readyDocument(map[string]string{"lang": "en"}, vector(chunkFor(0, "foreign", "word")))
	b.document([]byte("unread"))
	held := b.claimDocument()
	if kept, err := b.s.Knowledge.AddChunks(t.Context(), held, []knowledgedb.NewChunk{vector(chunkFor(0, "unread", "word"))}, "m", nil, 0); err != nil || !kept {
		t.Fatal(kept, err)
	}
	for _, c := range []struct {
		scope knowledgedb.SearchScope
		want  string
	}{
		{knowledgedb.SearchScope{}, "one word / two word"},
		{knowledgedb.SearchScope{DocumentIDs: []string{two}}, "two word"},
		{knowledgedb.SearchScope{DocumentIDs: []string{two, one, two, "doc_x", ""}}, "one word / two word"},
		{knowledgedb.SearchScope{DocumentIDs: []string{foreign, held.ID}}, ""},
		{knowledgedb.SearchScope{Metadata: map[string]string{"lang": "en"}}, "one word"},
		{knowledgedb.SearchScope{Metadata: map[string]string{"lang": "en", "year": "2026"}}, "one word"},
		{knowledgedb.SearchScope{Metadata: map[string]string{"lang": "en", "year": "2025"}}, ""},
		{knowledgedb.SearchScope{Metadata: map[string]string{"lang": "de"}, DocumentIDs: []string{one}}, ""},
	} {
		c.scope.OrganizationID = b.org
		for what, search := range b.searches(c.scope, asked("word")) {
			got := strings.Split(b.shown(search()), " / ")
			slices.Sort(got)
			want := c.want
			if what == "similar" { // a known word has no similar words
				want = ""
			}
			if strings.Join(got, " / ") != want {
				t.Errorf("%s in %+v: %q, want %q", what, c.scope, got, want)
			}
		}
	}
}

// The functions can read the rows of all organizations. They must use only the rows of the
// requested organization, whichever organizations the transaction acts for.
func TestSearchesKeepOrganizationsApart(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	s, raw := openAt(t, dsn)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	secret := chunkFor(0, "secret", "zylinder")
	secret.Vector = []float32{1, 0}
	b.readyDocument(nil, secret)
	hits, err := s.Knowledge.SearchText(t.Context(), knowledgedb.SearchScope{OrganizationID: b.org}, asked("secret"), 10)
	if err != nil || len(hits) != 1 {
		t.Fatal(hits, err)
	}
	broken, by := sabotaged(t, dsn)
	forgetful := &testEnv{T: t, s: broken, raw: raw, org: other.org}
	for _, org := range []string{other.org, "", "org_none", b.org + "," + other.org, "%"} {
		for what, search := range forgetful.searches(knowledgedb.SearchScope{OrganizationID: org}, asked("secret zylidner")) {
			if found, err := search(); err != nil || len(found) > 0 {
				t.Errorf("%s for %q: %v, %v", what, org, found, err)
			}
		}
	}
	passages, err := broken.Knowledge.Passages(t.Context(), other.org, []int64{hits[0].ChunkID})
	if err != nil || len(passages) > 0 {
		t.Errorf("passages: %v, %v", passages, err)
	}
	if by.Conditions() == 0 {
		t.Error("nothing was sabotaged")
	}
}

func TestNearestVectors(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const dimensions, documents = 64, 2600 // more documents than are compared exactly
	random := rand.New(rand.NewPCG(5, 5))
	unit := func(near []float32, randomBytes float64) []float32 {
		out, sum := make([]float32, dimensions), 0.0
		for i := range out {
			out[i] = float32(random.NormFloat64() * randomBytes)
			if near != nil {
				out[i] += near[i]
			}
			sum += float64(out[i]) * float64(out[i])
		}
		for i := range out {
			out[i] /= float32(math.Sqrt(sum))
		}
		return out
	}
	sought := unit(nil, 1)
	var chunks []knowledgedb.NewChunk
	for n := range documents {
		c := chunkFor(n, fmt.Sprint("n", n))
		if c.Vector = unit(nil, 1); n%500 == 7 {
			c.Vector = unit(sought, 0.01*float64(1+n/500))
		}
		chunks = append(chunks, c)
	}
	doc := b.readyDocument(nil, chunks...)
	scope := knowledgedb.SearchScope{OrganizationID: b.org}
	b.wantCounted("more chunks than are counted at once")
	if got := b.shown(b.s.Knowledge.SearchVectors(t.Context(), scope, "m", sought, 6)); got != "n7 / n507 / n1007 / n1507 / n2007 / n2507" {
		t.Errorf("found %s", got)
	}
	exactly, err := b.s.Knowledge.SearchVectors(t.Context(), scope, "m", chunks[7].Vector, 1)
	if err != nil || len(exactly) != 1 || math.Abs(exactly[0].Score-1) > 1e-5 {
		t.Errorf("itself: %+v, %v", exactly, err)
	}
	for what, of := range map[string][]float32{"other": sought, "m": sought[:10], "none": nil} {
		if hits, err := b.s.Knowledge.SearchVectors(t.Context(), scope, what, of, 6); err != nil || len(hits) > 0 {
			t.Errorf("of the model %s with %d dimensions: %v, %v", what, len(of), hits, err)
		}
	}
	b.deleteDocument(doc)
	b.wantIndexed("after deleting", "0 chunks 0 vectors 0 terms")
}

// TestFirstPassages reads the first chunks of the newest documents in a scope.
func TestFirstPassages(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ids := make([]string, 4)
	for n := range ids {
		ids[n] = b.readyDocument(map[string]string{"parity": fmt.Sprint(n % 2)}, chunkFor(0, fmt.Sprint("first", n)), chunkFor(1, "second"))
	}
	b.exec(`UPDATE documents SET status = 'queued' WHERE id = '` + ids[3] + `'`)
	for _, c := range []struct {
		name  string
		scope knowledgedb.SearchScope
		limit int
		want  string
	}{
		{"all", knowledgedb.SearchScope{}, 5, "first2 first1 first0"},
		{"limit", knowledgedb.SearchScope{}, 2, "first2 first1"},
		{"ids", knowledgedb.SearchScope{DocumentIDs: []string{ids[0], ids[1], ids[3], "doc_none", "\x00"}}, 5, "first1 first0"},
		{"metadata", knowledgedb.SearchScope{Metadata: map[string]string{"parity": "0"}}, 5, "first2 first0"},
		{"metadata that cannot be stored", knowledgedb.SearchScope{Metadata: map[string]string{"parity": "\x00"}}, 5, ""},
		{"limit 0", knowledgedb.SearchScope{}, 0, ""},
	} {
		c.scope.OrganizationID = b.org
		found, err := b.s.Knowledge.FirstPassages(t.Context(), c.scope, c.limit)
		var texts []string
		for _, p := range found {
			texts = append(texts, p.Text)
		}
		if got := strings.Join(texts, " "); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	if found, err := b.s.Knowledge.FirstPassages(t.Context(), knowledgedb.SearchScope{OrganizationID: id.New(id.Organization)}, 5); err != nil || len(found) > 0 {
		t.Errorf("of another organization: %v, %v", found, err)
	}
}

func TestPassagesOfDocuments(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	var chunks []knowledgedb.NewChunk
	for n := range 6 {
		c, page := chunkFor(n, fmt.Sprint("n", n)), n/2+1
		c.Page, c.Headings, c.StartIndex, c.EndIndex = &page, []string{"A, {\"b\"}", "ü"}, n, n+2
		c.Box = &domain.Box{1, 2.5, 3, 4}
		chunks = append(chunks, c)
	}
	doc := b.readyDocument(nil, chunks...)
	show := func(passages []domain.Passage, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, p := range passages {
			want := chunks[p.Chunk].Passage
			want.DocumentID, want.Name = doc, "d"
			if fmt.Sprint(*p.Page, *p.Box, p.Headings, p.DocumentID, p.Name, p.StartIndex, p.EndIndex) !=
				fmt.Sprint(*want.Page, *want.Box, want.Headings, want.DocumentID, want.Name, want.StartIndex, want.EndIndex) || len(p.Headings) != 2 {
				t.Errorf("%+v, want %+v", p, want)
			}
			out = append(out, p.Text)
		}
		return strings.Join(out, " ")
	}
	for limit, want := range map[int]string{9: "n2 n3", 1: "n2"} {
		if got := show(b.s.Knowledge.DocumentPassages(t.Context(), b.org, doc, 2, limit)); got != want {
			t.Errorf("%d of page 2: %s", limit, got)
		}
	}
	for chunk, want := range map[int]string{0: "n0 n1", 3: "n2 n3 n4", 5: "n4 n5", 9: "", math.MaxInt32: "", -5: ""} {
		if got := show(b.s.Knowledge.DocumentPassagesAround(t.Context(), b.org, doc, chunk, 1)); got != want {
			t.Errorf("around %d: %s", chunk, got)
		}
	}
	var last, first int64
	row := b.raw.QueryRowContext(t.Context(), `SELECT max(id), min(id) FROM document_chunks`)
	if err := row.Scan(&last, &first); err != nil {
		t.Fatal(err)
	}
	if got := show(b.s.Knowledge.Passages(t.Context(), b.org, []int64{last, 1 << 50, first, last})); got != "n5 n0 n5" {
		t.Errorf("passages: %s", got)
	}
	b.exec(`UPDATE documents SET status = 'queued'`)
	if got := show(b.s.Knowledge.Passages(t.Context(), b.org, []int64{last})) + show(b.s.Knowledge.DocumentPassages(t.Context(), b.org, doc, 2, 9)); got != "" {
		t.Errorf("of one that is not ready: %s", got)
	}
}

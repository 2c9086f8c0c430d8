package retrieval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/knowledgedb"
	"parley/shared/testkit"
	"parley/shared/testkit/modelstub"
	"parley/workers/internal/analysis"
	"parley/workers/internal/retrieval"
)

// realStore is a store on a real database with two organizations.
type realStore struct {
	*testing.T
	*store.Store
	org, other string
}

func openShelf(t *testing.T) *realStore {
	t.Helper()
	s, err := store.Open(testkit.Postgres(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	sh := &realStore{T: t, Store: s}
	for n, org := range []*string{&sh.org, &sh.other} {
		email := fmt.Sprintf("%d@example.com", n)
		account, err := s.Accounts.SignUp(t.Context(), accountdb.NewUser{Email: email, Name: "a"}, accountdb.NewLogin{TokenHash: []byte(email), ExpiresAt: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		*org = account.Organization.ID
	}
	return sh
}

// add adds a document that is ready, with one passage per page. If a model is given, the passages
// have vectors.
func (s *realStore) add(org, name, language, model string, metadata map[string]string, pages ...string) string {
	s.Helper()
	ctx := s.Context()
	upload, err := s.Blobs.Upload(ctx, org, strings.NewReader(name+strings.Join(pages, "\n")), 1<<20)
	if err != nil {
		s.Fatal(err)
	}
	added, err := s.Knowledge.AddDocuments(ctx, org, []knowledgedb.NewDocument{{
		ID: id.New(id.Document), Name: name, MIMEType: "text/plain", Metadata: metadata, Content: &upload, CreatedBy: "usr_1",
	}}, knowledgedb.DocumentLimits{})
	if err != nil {
		s.Fatal(err)
	}
	claimed, err := s.Knowledge.ClaimDocuments(ctx, knowledgedb.DocumentClaim{Max: 10})
	if err != nil || len(claimed) != 1 || claimed[0].ID != added[0].Document.ID {
		s.Fatalf("claimed %+v, %v", claimed, err)
	}
	var chunks []knowledgedb.NewChunk
	var terms knowledgedb.TermCounts
	for n, text := range pages {
		page := n + 1
		chunk := knowledgedb.NewChunk{Passage: domain.Passage{Chunk: n, Page: &page, Headings: []string{}, Text: text, EndIndex: len([]rune(text))}, Terms: termsFor(language, text)}
		if model != "" {
			chunk.Vector = modelstub.Vector(text)
		}
		terms.Add(chunk.Terms)
		chunks = append(chunks, chunk)
	}
	held, total := claimed[0].LeasedDocument, len(pages)
	if kept, err := s.Knowledge.AddChunks(ctx, held, chunks, model, &total, total); err != nil || !kept {
		s.Fatalf("adding chunks: %v, %v", kept, err)
	}
	end := knowledgedb.FinishedDocument{MIMEType: "text/plain", Language: language, Pages: &total, Model: model, Terms: terms}
	if kept, err := s.Knowledge.FinishDocument(ctx, held, end); err != nil || !kept {
		s.Fatalf("finishing: %v, %v", kept, err)
	}
	return held.ID
}

// termsFor returns the terms of a text in the form in which they are indexed.
func termsFor(language, text string) []knowledgedb.Term {
	var terms []knowledgedb.Term
	at := map[string]int{}
	for _, l := range analysis.Terms(language, text) {
		n, known := at[l.Text]
		if !known {
			n = len(terms)
			at[l.Text] = n
			terms = append(terms, knowledgedb.Term{Lexeme: l.Text})
		}
		terms[n].Positions = append(terms[n].Positions, l.Position)
	}
	return terms
}

// stub computes the vectors of a stub model.
type stub struct{}

func (stub) Model() string { return "openai/stub" }

func (stub) Embed(_ context.Context, texts []string) ([][]float32, error) {
	var vectors [][]float32
	for _, text := range texts {
		vectors = append(vectors, modelstub.Vector(text))
	}
	return vectors, nil
}

// pagesFor formats a result: the document's name and the page of each passage.
func pagesFor(r retrieval.Result) string {
	var list []string
	for _, f := range r.Found {
		list = append(list, fmt.Sprintf("%s %d", f.Name, *f.Page))
	}
	return strings.Join(list, ", ")
}

var safety = []string{
	"Helmets are worn on site at all times.", "Visitors report to the gate and sign the visitors' book.",
	"Ladders are inspected every 90 days. The inspector signs the log.", "Fire drills take place twice a year.",
	"The maximum load of the crane is 12 tonnes.", "Spill kits stand beside every tank.",
}

func TestSearchesOfRealDocuments(t *testing.T) {
	t.Parallel()
	s := openShelf(t)
	first := s.add(s.org, "safety.txt", "en", "", map[string]string{"team": "site", "year": "2026"}, safety...)
	german := s.add(s.org, "garantie.txt", "de", "", map[string]string{"team": "sales"}, "Die Gewährleistung beträgt zwei Jahre.", "Ersatzteile werden binnen zehn Tagen geliefert.")
	s.add(s.org, "手册.txt", "zh", "", nil, "本产品的保修期为两年。", "请保留发票。")
	s.add(s.other, "secret.txt", "en", "", nil, "Ladders of the other organization are inspected daily.")
	searcher := retrieval.New(s.Store.Knowledge, nil)
	for name, c := range map[string]struct {
		query retrieval.Query
		want  string
	}{
		"a question":                  {retrieval.Query{Text: "How often is a ladder inspected?", Supported: true}, "safety.txt 3"},
		"another form":                {retrieval.Query{Text: "inspecting ladders", Supported: true}, "safety.txt 3"},
		"misspelled":                  {retrieval.Query{Text: "laddders", Supported: true}, "safety.txt 3"},
		"in German":                   {retrieval.Query{Text: "Wie lange ist die Gewährleistung?", Supported: true}, "garantie.txt 1"},
		"without marks":               {retrieval.Query{Text: "gewahrleistung", Supported: true}, "garantie.txt 1"},
		"in Chinese":                  {retrieval.Query{Text: "保修期是多久", Supported: true}, "手册.txt 1"},
		"nothing of it":               {retrieval.Query{Text: "What is the capital of Mongolia?", Supported: true}, ""},
		"in one document":             {retrieval.Query{Text: "ladders", DocumentIDs: []string{first}}, "safety.txt 3"},
		"in another":                  {retrieval.Query{Text: "ladders", DocumentIDs: []string{german}}, ""},
		"with metadata":               {retrieval.Query{Text: "ladders", Metadata: map[string]string{"team": "site"}}, "safety.txt 3"},
		"with all of the metadata":    {retrieval.Query{Text: "ladders", Metadata: map[string]string{"team": "site", "year": "2025"}}, ""},
		"another's document":          {retrieval.Query{Text: "ladders", OrganizationID: "org_none"}, ""},
		"both of a question's halves": {retrieval.Query{Text: "visitors gate crane load", Supported: true, Limit: 2}, "safety.txt 2, safety.txt 5"},
	} {
		if c.query.OrganizationID == "" {
			c.query.OrganizationID = s.org
		}
		got, err := searcher.Search(t.Context(), c.query)
		if err != nil || pagesFor(got) != c.want && pagesFor(got) != swapped(c.want) || len(got.Without) != 0 {
			t.Errorf("%s: %s, without %v, %v", name, pagesFor(got), got.Without, err)
		}
	}
	got, err := searcher.Search(t.Context(), retrieval.Query{OrganizationID: s.other, Text: "ladders"})
	if err != nil || pagesFor(got) != "secret.txt 1" {
		t.Errorf("the other organization: %s, %v", pagesFor(got), err)
	}
	words := analysis.Query("ladders tank")
	count := func(org string) string {
		chunks, counts, err := s.Knowledge.KnowledgeWords(t.Context(), org, append(words[0].Lexemes, append(words[1].Lexemes, "", "nobody's")...))
		return fmt.Sprint(chunks, counts["ladder"], counts["tank"], len(counts), err)
	}
	if own, other, none := count(s.org), count(s.other), count("org_none"); own != "10 1 1 2 <nil>" || other != "1 1 0 1 <nil>" || none != "0 0 0 0 <nil>" {
		t.Errorf("words: %s; %s; %s", own, other, none)
	}
	if _, err := s.Knowledge.DeleteDocument(t.Context(), s.org, first); err != nil {
		t.Fatal(err)
	}
	if got, err = searcher.Search(t.Context(), retrieval.Query{OrganizationID: s.org, Text: "ladders inspected crane"}); err != nil || len(got.Found) != 0 {
		t.Errorf("deleted: %s, %v", pagesFor(got), err)
	}
}

// swapped returns a list of two elements in the opposite order.
func swapped(list string) string {
	a, b, _ := strings.Cut(list, ", ")
	return b + ", " + a
}

func TestSearchesByVectors(t *testing.T) {
	t.Parallel()
	s := openShelf(t)
	s.add(s.org, "safety.txt", "en", "openai/stub", nil, safety...)
	s.add(s.other, "secret.txt", "en", "openai/stub", nil, "Ladders of the other organization are inspected daily.")
	got, err := retrieval.New(s.Store.Knowledge, stub{}).Search(t.Context(), retrieval.Query{OrganizationID: s.org, Text: "ladder inspection", Supported: true, Limit: 1})
	if err != nil || pagesFor(got) != "safety.txt 3" || len(got.Without) != 0 {
		t.Fatalf("%s, without %v, %v", pagesFor(got), got.Without, err)
	}
	if by := strings.Join(got.Found[0].MatchedBy, " "); by != "text vector" {
		t.Errorf("found by %s", by)
	}
	all, err := retrieval.New(s.Store.Knowledge, stub{}).Search(t.Context(), retrieval.Query{OrganizationID: s.org, Text: "ladder inspection"})
	if err != nil || len(all.Found) != len(safety) {
		t.Errorf("%s, %v", pagesFor(all), err)
	}
	for _, f := range all.Found {
		if f.Name != "safety.txt" || f.Text != safety[*f.Page-1] || f.Chunk != *f.Page-1 {
			t.Errorf("%+v", f)
		}
	}
}

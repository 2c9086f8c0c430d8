package knowledge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/knowledge"
)

// fakeSearch implements the search and the records of documents. log lists the calls in order.
type fakeSearch struct {
	reply contract.SearchReply
	err   error
	gone  []string // deleted documents
	note  error
	log   []string
}

func (l *fakeSearch) SearchFor(_ context.Context, org string, r contract.SearchRequest) (contract.SearchReply, error) {
	l.log = append(l.log, fmt.Sprintf("search %s %q %v %v %d", org, r.Query, r.DocumentIDs, r.Metadata, r.Limit))
	return l.reply, l.err
}

func (l *fakeSearch) First(_ context.Context, org string, r contract.SearchRequest) (contract.SearchReply, error) {
	l.log = append(l.log, fmt.Sprintf("first %s %v %v %d", org, r.DocumentIDs, r.Metadata, r.Limit))
	return l.reply, l.err
}

func (l *fakeSearch) Give(_ context.Context, ids []string) ([]string, error) {
	l.log = append(l.log, "give "+strings.Join(ids, " "))
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(l.gone, id) }), l.note
}

func (*fakeSearch) Find(context.Context, []string) ([]domain.Document, error) { return nil, nil }

func (*fakeSearch) Read(context.Context, []domain.Document) ([][]byte, error) { return nil, nil }

func (l *fakeSearch) call(t *testing.T, arguments string) (tool.Result, error) {
	t.Helper()
	return knowledge.New(l).Call(t.Context(), tool.Request{
		OrganizationID: "org_1", RunID: "run_1", TargetID: "ag_1", Documents: l,
		Config: domain.Config{Tools: domain.Tools{Knowledge: &domain.KnowledgeTool{
			Enabled: true, DocumentIDs: []string{"doc_a", "doc_b"}, Metadata: map[string]string{"team": "sales"},
		}}},
		Call: tool.Call{ID: "call_1", Name: "knowledge", Arguments: json.RawMessage(arguments)},
	})
}

func found(document string, chunk int, page *int, text string) domain.Found {
	return domain.Found{Score: 1, MatchedBy: []string{"text"}, Passage: domain.Passage{
		DocumentID: document, Name: document + ".pdf", Chunk: chunk, Page: page, Headings: []string{"Top", "Below"}, Text: text,
	}}
}

type shown struct {
	Results []struct {
		DocumentID string   `json:"documentId"`
		Name       string   `json:"name"`
		Page       *int     `json:"page"`
		Headings   []string `json:"headings"`
		Text       string   `json:"text"`
	} `json:"results"`
	Note string `json:"note"`
}

func read(t *testing.T, r tool.Result) (s shown) {
	t.Helper()
	if err := json.Unmarshal(r.Output, &s); err != nil || s.Results == nil {
		t.Fatalf("%s: %v", r.Output, err)
	}
	return s
}

func TestPassagesBecomeSources(t *testing.T) {
	t.Parallel()
	page := 7
	long := "Ladders are <checked> yearly.\n\n" + strings.Repeat("Wörter ", 100)
	l := &fakeSearch{reply: contract.SearchReply{Found: []domain.Found{found("doc_b", 3, &page, long), found("doc_a", 12, nil, "Second."), found("doc_b", 4, &page, "Third.")}}}
	got, err := l.call(t, `{"query":"  when are\nladders checked? "}`)
	if err != nil {
		t.Fatal(err)
	}
	if log := strings.Join(l.log, "\n"); log != `search org_1 "when are ladders checked?" [doc_a doc_b] map[team:sales] 5`+"\ngive doc_b doc_a" {
		t.Errorf("log: %s", log)
	}
	for n, want := range []struct {
		id, url, text string
		page          *int
	}{
		{"doc_b", "/api/knowledge?id=doc_b&page=7", long, &page},
		{"doc_a", "/api/knowledge?id=doc_a&chunk=12", "Second.", nil},
		{"doc_b", "/api/knowledge?id=doc_b&page=7", "Third.", &page},
	} {
		s := got.Sources[n]
		if s.Type != "document" || s.Title != want.id+".pdf" || s.URL != want.url || s.CitedText != want.text || *s.DocumentID != want.id ||
			(s.Page == nil) != (want.page == nil) || s.Page != nil && *s.Page != *want.page || s.SourceID != nil {
			t.Errorf("source %d: %+v", n, s)
		}
	}
	out := read(t, got)
	first := out.Results[0]
	if len(out.Results) != 3 || out.Note != "" || first.DocumentID != "doc_b" || first.Name != "doc_b.pdf" || *first.Page != 7 ||
		strings.Join(first.Headings, "/") != "Top/Below" || !strings.HasPrefix(first.Text, "Ladders are <checked> yearly. Wörter") ||
		!strings.HasSuffix(first.Text, "…") || len([]rune(first.Text)) != 201 || !strings.Contains(string(got.Output), "<checked>") {
		t.Errorf("%s", got.Output)
	}
	if capped := tool.Cap(got); len(capped.Sources) != 3 || string(capped.Output) != string(got.Output) || capped.Sources[0].CitedText != long {
		t.Errorf("the result is cut: %+v", capped)
	}
}

// TestBeginningsOfDocuments: a call without a query returns the first passages of the documents.
func TestBeginningsOfDocuments(t *testing.T) {
	t.Parallel()
	l := &fakeSearch{reply: contract.SearchReply{Found: []domain.Found{found("doc_b", 0, nil, "First."), found("doc_a", 0, nil, "Also first.")}}}
	got, err := l.call(t, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	if log := strings.Join(l.log, "\n"); log != "first org_1 [doc_a doc_b] map[team:sales] 5\ngive doc_b doc_a" {
		t.Errorf("log: %s", log)
	}
	if len(got.Sources) != 2 || got.Sources[0].CitedText != "First." || len(read(t, got).Results) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestNothingToSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fakeSearch fakeSearch
		results    int
		note       []string
	}{
		"nothing found":       {fakeSearch{}, 0, []string{"the documents do not contain it"}},
		"deleted in between":  {fakeSearch{reply: contract.SearchReply{Found: []domain.Found{found("doc_a", 1, nil, "A.")}}, gone: []string{"doc_a"}}, 0, []string{"the documents do not contain it"}},
		"one deleted":         {fakeSearch{reply: contract.SearchReply{Found: []domain.Found{found("doc_a", 1, nil, "A."), found("doc_b", 1, nil, "B.")}}, gone: []string{"doc_a"}}, 1, nil},
		"by words alone":      {fakeSearch{reply: contract.SearchReply{Found: []domain.Found{found("doc_a", 1, nil, "A.")}, Without: []string{"vector"}}}, 1, []string{"Only the words"}},
		"neither":             {fakeSearch{reply: contract.SearchReply{Without: []string{"trigram", "vector"}}}, 0, []string{"do not contain it", "Only the words"}},
		"a source unlike all": {fakeSearch{reply: contract.SearchReply{Found: []domain.Found{found("doc_a", 1, nil, "A.")}, Without: []string{"trigram"}}}, 1, nil},
	} {
		got, err := c.fakeSearch.call(t, `{"query":"q"}`)
		if err != nil {
			t.Fatal(err)
		}
		out := read(t, got)
		if len(out.Results) != c.results || len(got.Sources) != c.results || (out.Note == "") != (len(c.note) == 0) {
			t.Errorf("%s: %s", name, got.Output)
		}
		for _, words := range c.note {
			if !strings.Contains(out.Note, words) {
				t.Errorf("%s: %q", name, out.Note)
			}
		}
	}
}

// TestResultsAreBounded: a call returns only as many complete passages as fit into the limit, even
// if the search finds more.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	var many []domain.Found
	for n := range 10 {
		many = append(many, found("doc_a", n, nil, fmt.Sprint(n)+strings.Repeat("界", 1_600)))
	}
	l := &fakeSearch{reply: contract.SearchReply{Found: many}}
	got, err := l.call(t, `{"query":"q","limit":10}`)
	if err != nil || len(got.Sources) != 5 || len(read(t, got).Results) != 5 {
		t.Fatalf("%d sources, %v", len(got.Sources), err)
	}
	for n, s := range got.Sources {
		if s.CitedText != many[n].Text {
			t.Errorf("source %d was cut", n)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		`{"query":"a","limit":10}`: "10", `{"query":"a","limit":1}`: "1", `{"query":"a","limit":null}`: "5",
		`{"query":"` + strings.Repeat("ü", 1_000) + `"}`: "5",
		`{"query":"` + strings.Repeat("ü", 1_001) + `"}`: "1 to 1000 characters",
		`{"query":" \n "}`: "1 to 1000 characters", `{"query":""}`: "1 to 1000 characters", `{}`: "5", `{"query":null}`: "5", `{"limit":3}`: "3", `{"query":7}`: "arguments", `[]`: "arguments",
		`{"query":"a","limit":0}`: "between 1 and 10", `{"query":"a","limit":11}`: "between 1 and 10", `{"query":"a","limit":"5"}`: "arguments",
	} {
		l := &fakeSearch{}
		_, err := l.call(t, arguments)
		got := strings.Join(l.log, "")
		if public, ok := errors.AsType[*tool.Error](err); ok {
			got = public.Message
		}
		if !strings.Contains(got, want) || (err == nil) != (len(want) < 3) {
			t.Errorf("%.40s: %s", arguments, got)
		}
	}
}

// TestDocumentsOfTheModelCountForNothing: if the arguments of a model contain documents,
// organizations or metadata, these are ignored.
func TestDocumentsOfTheModelCountForNothing(t *testing.T) {
	t.Parallel()
	l := &fakeSearch{}
	if _, err := l.call(t, `{"query":"a","documentIds":["doc_z"],"documentId":"doc_z","metadata":{},"organizationId":"org_2"}`); err != nil {
		t.Fatal(err)
	}
	if l.log[0] != `search org_1 "a" [doc_a doc_b] map[team:sales] 5` {
		t.Errorf("searched: %s", l.log)
	}
	_, err := knowledge.New(l).Call(t.Context(), tool.Request{OrganizationID: "org_1", Call: tool.Call{Arguments: json.RawMessage(`{"query":"a"}`)}})
	if public, ok := errors.AsType[*tool.Error](err); !ok || public.Retryable || len(l.log) != 1 {
		t.Errorf("without the tool: %v", err)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	boom := errors.New("the database is away")
	one := contract.SearchReply{Found: []domain.Found{found("doc_a", 1, nil, "A.")}}
	for name, l := range map[string]*fakeSearch{"search": {err: boom}, "note": {reply: one, note: boom}} {
		got, err := l.call(t, `{"query":"q"}`)
		public, ok := errors.AsType[*tool.Error](err)
		if !ok || !public.Retryable || strings.Contains(public.Message, "database") || !errors.Is(err, boom) || got.Sources != nil || got.Output != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	l := &fakeSearch{reply: one, note: tool.ErrStale}
	if _, err := l.call(t, `{"query":"q"}`); !errors.Is(err, tool.ErrStale) {
		t.Errorf("taken over: %v", err)
	}
	if _, public := errors.AsType[*tool.Error](tool.ErrStale); public {
		t.Error("the model sees it")
	}
}

package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/retrieval"
)

// fakeStore is a store whose searches return fixed results.
type fakeStore struct {
	chunks                       int64
	counts                       map[string]int64
	text, similar, vectors       []knowledgedb.Hit
	noText, noSimilar, noVectors error
	noCounts, noPassages         error
	texts                        map[int64]string // texts by chunk; a chunk without a text has been deleted
	wait                         func(ctx context.Context, source string) error
	mu                           sync.Mutex
	asked                        []string
	scopes                       []knowledgedb.SearchScope
	words                        []knowledgedb.QueryWord
	limits                       []int
}

func (s *fakeStore) note(ctx context.Context, source string, scope knowledgedb.SearchScope, limit int) error {
	s.mu.Lock()
	s.asked, s.scopes, s.limits = append(s.asked, source), append(s.scopes, scope), append(s.limits, limit)
	s.mu.Unlock()
	if s.wait != nil {
		return s.wait(ctx, source)
	}
	return nil
}

func (s *fakeStore) SearchText(ctx context.Context, scope knowledgedb.SearchScope, words []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error) {
	s.mu.Lock()
	s.words = words
	s.mu.Unlock()
	return s.text, errors.Join(s.note(ctx, "text", scope, limit), s.noText)
}

func (s *fakeStore) SearchSimilar(ctx context.Context, scope knowledgedb.SearchScope, _ []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error) {
	return s.similar, errors.Join(s.note(ctx, "trigram", scope, limit), s.noSimilar)
}

func (s *fakeStore) SearchVectors(ctx context.Context, scope knowledgedb.SearchScope, model string, _ []float32, limit int) ([]knowledgedb.Hit, error) {
	return s.vectors, errors.Join(s.note(ctx, "vector "+model, scope, limit), s.noVectors)
}

func (s *fakeStore) KnowledgeWords(context.Context, string, []string) (int64, map[string]int64, error) {
	return s.chunks, s.counts, s.noCounts
}

func (s *fakeStore) Passages(_ context.Context, org string, chunks []int64) ([]domain.Passage, error) {
	s.mu.Lock()
	s.asked = append(s.asked, fmt.Sprint("passages ", org, chunks))
	s.mu.Unlock()
	var list []domain.Passage
	for _, c := range chunks {
		if text, there := s.texts[c]; there {
			list = append(list, domain.Passage{DocumentID: "doc_1", Name: "a.txt", Chunk: int(c), Text: text})
		}
	}
	return list, s.noPassages
}

func (s *fakeStore) FirstPassages(ctx context.Context, scope knowledgedb.SearchScope, limit int) ([]domain.Passage, error) {
	return []domain.Passage{{DocumentID: "doc_2", Text: "Two."}, {DocumentID: "doc_1", Text: "One."}}, errors.Join(s.note(ctx, "first", scope, limit), s.noPassages)
}

// embedder returns a fixed vector after a delay.
type embedder struct {
	model string
	takes time.Duration
	err   error
	none  bool
	asked int
}

func (e *embedder) Model() string { return e.model }

func (e *embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	e.asked += len(texts)
	select {
	case <-time.After(e.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.none {
		return nil, e.err
	}
	return [][]float32{{1, 0}}, e.err
}

func hits(chunks ...int64) []knowledgedb.Hit {
	var list []knowledgedb.Hit
	for n, c := range chunks {
		list = append(list, knowledgedb.Hit{ChunkID: c, Score: 0.9 - float64(n)/10})
	}
	return list
}

func full() *fakeStore {
	s := &fakeStore{chunks: 1000, texts: map[int64]string{}}
	for n := range int64(200) {
		s.texts[n] = fmt.Sprintf("ladder number %d", n)
	}
	return s
}

// chunks formats a result: each chunk with the sources that have found it.
func chunks(r retrieval.Result) string {
	var list []string
	for _, f := range r.Found {
		list = append(list, fmt.Sprintf("%d:%s", f.Chunk, strings.Join(f.MatchedBy, "+")))
	}
	return strings.Join(list, " ")
}

func TestRanksAreFused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, similar, vectors []knowledgedb.Hit
		limit                  int
		want                   string
	}{
		"text alone":            {hits(3, 1, 2), nil, nil, 0, "3:text 1:text 2:text"},
		"two beat one":          {hits(1, 2), nil, hits(3, 2), 0, "2:text+vector 1:text 3:vector"},
		"two far down beat one": {hits(1, 10, 11, 12, 13, 14, 2), nil, hits(20, 21, 22, 23, 24, 25, 2), 1, "2:text+vector"},
		"likeness counts less":  {hits(1), hits(2), nil, 0, "1:text 2:trigram"},
		"likeness adds":         {hits(1, 2), hits(2), nil, 0, "2:text+trigram 1:text"},
		"all three":             {hits(1), hits(1), hits(1), 0, "1:text+trigram+vector"},
		"words before meanings": {hits(9), nil, hits(4), 0, "9:text 4:vector"},
		"the same twice":        {append(hits(5), hits(5)...), nil, nil, 0, "5:text"},
		"at most so many":       {hits(1, 2, 3, 4), nil, nil, 3, "1:text 2:text 3:text"},
		"ten unless said":       {hits(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), nil, nil, 0, "1:text 2:text 3:text 4:text 5:text 6:text 7:text 8:text 9:text 10:text"},
		"what is gone":          {hits(1, 999, 2), nil, hits(999), 2, "1:text"},
		"nothing":               {nil, nil, nil, 0, ""},
	} {
		s := full()
		s.text, s.similar, s.vectors = c.text, c.similar, c.vectors
		got, err := retrieval.New(s, &embedder{model: "m"}).Search(t.Context(), retrieval.Query{
			OrganizationID: "org_1", Text: "ladder", DocumentIDs: []string{"doc_1"}, Metadata: map[string]string{"a": "b"}, Limit: c.limit,
		})
		if err != nil || chunks(got) != c.want || len(got.Without) != 0 {
			t.Errorf("%s: %s, without %v, %v", name, chunks(got), got.Without, err)
		}
		for n, f := range got.Found {
			if f.Score <= 0 || n > 0 && f.Score > got.Found[n-1].Score || f.Text != s.texts[int64(f.Chunk)] {
				t.Errorf("%s: %+v", name, f)
			}
		}
		for n, scope := range s.scopes {
			if scope.OrganizationID != "org_1" || scope.DocumentIDs[0] != "doc_1" || scope.Metadata["a"] != "b" || s.limits[n] < 50 {
				t.Errorf("%s: searched in %+v, %d", name, scope, s.limits[n])
			}
		}
	}
	s := full()
	s.text = make([]knowledgedb.Hit, 0, 60)
	for n := range int64(60) {
		s.text = append(s.text, knowledgedb.Hit{ChunkID: n, Score: 1})
	}
	got, err := retrieval.New(s, nil).Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: "ladder", Limit: 1_000})
	if err != nil || len(got.Found) != 50 {
		t.Errorf("%d found, %v", len(got.Found), err)
	}
}

func TestFailingSources(t *testing.T) {
	t.Parallel()
	boom := errors.New("away")
	for name, c := range map[string]struct {
		fakeStore *fakeStore
		embedder  embedder
		want      string // expected chunks, missing sources, or a part of the error
	}{
		"nothing is wrong":  {&fakeStore{}, embedder{model: "m"}, "1:text+vector"},
		"no model":          {&fakeStore{}, embedder{}, "1:text"},
		"embeddings fail":   {&fakeStore{}, embedder{model: "m", err: boom}, "1:text, without vector"},
		"no vector":         {&fakeStore{}, embedder{model: "m", none: true}, "1:text, without vector"},
		"vectors fail":      {&fakeStore{noVectors: boom}, embedder{model: "m"}, "1:text, without vector"},
		"trigram fails":     {&fakeStore{noSimilar: boom}, embedder{model: "m"}, "1:text+vector, without trigram"},
		"both fail":         {&fakeStore{noSimilar: boom, noVectors: boom}, embedder{model: "m"}, "1:text, without trigram vector"},
		"the text fails":    {&fakeStore{noText: boom}, embedder{model: "m"}, "searching by words"},
		"the counts fail":   {&fakeStore{noCounts: boom}, embedder{model: "m"}, "counting words"},
		"the passages fail": {&fakeStore{noPassages: boom}, embedder{model: "m"}, "reading passages"},
	} {
		s := c.fakeStore
		s.chunks, s.texts, s.text, s.vectors = 1, map[int64]string{1: "a ladder"}, hits(1), hits(1)
		result, err := retrieval.New(s, &c.embedder).Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: "ladder"})
		got := chunks(result)
		if len(result.Without) > 0 {
			got += ", without " + strings.Join(result.Without, " ")
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) || errors.Is(err, boom) != (err != nil) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestErrorsOfOneOrganization: error responses to the queries of an organization do not stop the
// vector searches of others.
func TestErrorsOfOneOrganization(t *testing.T) {
	t.Parallel()
	s := full()
	s.text, s.vectors = hits(1), hits(1)
	e := &embedder{model: "m", err: errors.New("rejected")}
	searcher := retrieval.New(s, e)
	search := func(org string) string {
		got, err := searcher.Search(t.Context(), retrieval.Query{OrganizationID: org, Text: "ladder"})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(got.Without, " ")
	}
	for range 5 {
		if without := search("org_1"); without != "vector" {
			t.Errorf("a rejected query: without %q", without)
		}
	}
	e.err = nil
	if without := search("org_2"); without != "" {
		t.Errorf("another organization: without %q", without)
	}
}

// TestASlowServiceDoesNotDelaySearches: a search waits at most two seconds for the vector of its
// query. After several timeouts, searches do not wait at all for some time.
func TestASlowServiceDoesNotDelaySearches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := full()
		s.text, s.vectors = hits(1), hits(1)
		e := &embedder{model: "m", takes: time.Hour}
		searcher := retrieval.New(s, e)
		search := func() (took time.Duration, without string) {
			began := time.Now()
			got, err := searcher.Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: "ladder"})
			if err != nil || len(got.Found) != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			return time.Since(began), strings.Join(got.Without, " ")
		}
		for n := range 3 {
			if took, without := search(); took != 2*time.Second || without != "vector" {
				t.Errorf("search %d: %v, without %q", n, took, without)
			}
		}
		if took, without := search(); took != 0 || without != "vector" || e.asked != 3 {
			t.Errorf("while the service is unavailable: %v, without %q, %d calls", took, without, e.asked)
		}
		<-time.After(10 * time.Second)
		if took, _ := search(); took != 2*time.Second || e.asked != 4 {
			t.Errorf("the trial call: %v, %d calls", took, e.asked)
		}
		if took, _ := search(); took != 0 {
			t.Errorf("the next does not: %v", took)
		}
		<-time.After(10 * time.Second)
		e.takes = time.Millisecond
		for range 2 {
			if took, without := search(); took != time.Millisecond || without != "" {
				t.Errorf("after the service recovered: %v, without %q", took, without)
			}
		}
	})
}

func TestSourcesAreQueriedInParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := full()
		s.text = hits(1)
		s.wait = func(context.Context, string) error { <-time.After(time.Second); return nil }
		began := time.Now()
		_, err := retrieval.New(s, &embedder{model: "m", takes: time.Second}).Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: "ladder"})
		if took := time.Since(began); err != nil || took != 2*time.Second { // one second for the vector, and one for the search by vector
			t.Errorf("%v, %v", took, err)
		}
	})
}

func TestNothingToSearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := full()
		s.chunks = 0 // without documents, the search does not wait for the vector
		s.wait = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		e := &embedder{model: "m", takes: time.Second}
		searcher := retrieval.New(s, e)
		got, err := searcher.Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: "ladder"})
		if err != nil || len(got.Found)+len(got.Without) != 0 || time.Since(began) != 0 {
			t.Errorf("%+v after %v, %v", got, time.Since(began), err)
		}
		for range 5 { // cancelled searches do not count as failures of the service
			_, _ = searcher.Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: "ladder"})
		}
		if e.asked != 6 {
			t.Errorf("%d calls", e.asked)
		}
	})
	for _, text := range []string{"", "   ", "?!… --", "\x00\xff"} {
		s := full()
		got, err := retrieval.New(s, &embedder{model: "m"}).Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: text})
		if err != nil || len(got.Found) != 0 || len(s.asked) != 0 {
			t.Errorf("%q: %+v, %v after %v", text, got, err, s.asked)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := full()
	s.wait = func(ctx context.Context, _ string) error { return ctx.Err() }
	if _, err := retrieval.New(s, nil).Search(ctx, retrieval.Query{OrganizationID: "org_1", Text: "ladder"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestInvalidIDsFindNothing(t *testing.T) {
	t.Parallel()
	s := full()
	s.text = hits(1)
	for _, ids := range [][]string{{""}, {"doc_\x00"}, {strings.Repeat("doc_", 100)}, {"ag_1", "\xff"}} {
		got, err := retrieval.New(s, nil).Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: "ladder", DocumentIDs: ids})
		if err != nil || len(got.Found) != 0 || len(s.asked) != 0 {
			t.Errorf("%q: %+v, %v", ids, got, err)
		}
	}
	if _, err := retrieval.New(s, nil).Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: "ladder", DocumentIDs: []string{"ag_1", "doc_1"}}); err != nil ||
		len(s.scopes[0].DocumentIDs) != 1 {
		t.Errorf("%+v, %v", s.scopes, err)
	}
}

func TestLongQueries(t *testing.T) {
	t.Parallel()
	s := full()
	var many []string
	for n := range 500 {
		many = append(many, strings.Repeat(fmt.Sprintf("w%dx ", n), 2))
	}
	if _, err := retrieval.New(s, nil).Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: strings.Join(many, " ")}); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, w := range s.words {
		texts = append(texts, w.Text)
	}
	slices.Sort(texts)
	if len(texts) > 64 || len(texts) < 20 || len(slices.Compact(slices.Clone(texts))) != len(texts) {
		t.Errorf("%d words: %v", len(texts), texts)
	}
}

// TestFirst reads the beginnings of documents. Ids that no document can have are removed, and a
// scope without valid ids contains no documents.
func TestFirst(t *testing.T) {
	t.Parallel()
	s := full()
	q := retrieval.Query{OrganizationID: "org_1", DocumentIDs: []string{"doc_1", "no id"}, Metadata: map[string]string{"a": "b"}, Limit: 99}
	found, err := retrieval.New(s, nil).First(t.Context(), q)
	if err != nil || len(found) != 2 || found[0].Text != "Two." || found[1].DocumentID != "doc_1" {
		t.Errorf("%+v, %v", found, err)
	}
	if fmt.Sprint(s.asked, s.scopes, s.limits) != "[first] [{org_1 [doc_1] map[a:b]}] [50]" {
		t.Errorf("%v %v %v", s.asked, s.scopes, s.limits)
	}
	q.DocumentIDs = q.DocumentIDs[1:]
	if found, err := retrieval.New(s, nil).First(t.Context(), q); err != nil || len(found) > 0 || len(s.asked) != 1 {
		t.Errorf("without valid ids: %+v, %v", found, err)
	}
	s.noPassages = errors.New("the database is away")
	if _, err := retrieval.New(s, nil).First(t.Context(), retrieval.Query{OrganizationID: "org_1"}); !errors.Is(err, s.noPassages) || s.limits[1] != 10 {
		t.Errorf("%v, limits %v", err, s.limits)
	}
}

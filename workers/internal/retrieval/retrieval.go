package retrieval

import (
	"context"
	"fmt"
	"strings"
	"time"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/analysis"
)

// The sources of a search, as Found.MatchedBy and Result.Without name them.
const (
	ByText    = "text"
	ByTrigram = "trigram"
	ByVector  = "vector"
)

const (
	defaultLimit = 10
	maxLimit     = 50
	maxQuery     = 1_000 // characters that are looked at
	maxID        = 64    // bytes of a document's
	maxWords     = 64    // of a query, the first ones: more say no more, and each is looked for
)

// Index finds chunks: by each source the best, with scores that compare within one search.
type Index interface {
	SearchText(ctx context.Context, scope knowledgedb.SearchScope, words []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error)
	SearchSimilar(ctx context.Context, scope knowledgedb.SearchScope, words []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error)
	SearchVectors(ctx context.Context, scope knowledgedb.SearchScope, model string, vector []float32, limit int) ([]knowledgedb.Hit, error)
}

// Store is where documents are.
type Store interface {
	Index
	// KnowledgeWords gives how many chunks the organization's documents have, and how many of them have each of the lexemes.
	KnowledgeWords(ctx context.Context, org string, lexemes []string) (chunks int64, counts map[string]int64, err error)
	// Passages gives the texts of chunks in their order; those that are gone are left out.
	Passages(ctx context.Context, org string, chunks []int64) ([]domain.Passage, error)
}

// Embedder makes vectors of texts with one model, "" when there is none.
type Embedder interface {
	Model() string
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Query is what is searched for, and where.
type Query struct {
	OrganizationID string
	Text           string
	DocumentIDs    []string          // none: all of the organization's
	Metadata       map[string]string // that documents must have, all of it
	Limit          int               // 1 to 50; 0 is 10
	// Supported leaves out what has nothing, or next to nothing, to do with the query.
	Supported bool
}

// Result is what was found, the best first.
type Result struct {
	Found []domain.Found
	// Without names sources that could not be asked.
	Without []string
}

// Searcher searches; safe for concurrent use.
type Searcher struct {
	store    Store
	embedder Embedder
	gate     gate
}

// New makes a Searcher.
func New(s Store, e Embedder) *Searcher {
	return &Searcher{store: s, embedder: e, gate: gate{now: time.Now}}
}

// Search finds the passages that fit a query best. One without words finds nothing. It fails when the documents cannot be searched
// by their text, or with ctx's error.
func (s *Searcher) Search(ctx context.Context, q Query) (Result, error) {
	text := beginning(q.Text, maxQuery)
	words := wordsFor(text)
	ids, somewhere := documentIDs(q.DocumentIDs)
	if len(words) == 0 || !somewhere {
		return Result{}, nil
	}
	q.DocumentIDs = ids
	limit := defaultLimit
	if q.Limit > 0 {
		limit = min(q.Limit, maxLimit)
	}
	asked := s.ask(ctx, q, text, words)
	if asked.err != nil {
		return Result{}, asked.err
	}
	result := Result{Without: asked.without}
	fused := fuse(asked.ranks)
	maximum := limit
	if q.Supported {
		maximum = min(2*limit, maxLimit) // some of them will be left out
	}
	found, err := s.passages(ctx, q.OrganizationID, fused[:min(len(fused), maximum)])
	if err != nil {
		return Result{}, fmt.Errorf("reading passages: %w", err)
	}
	if q.Supported {
		found = asked.support(text, words).keep(found)
	}
	for _, f := range found[:min(len(found), limit)] {
		result.Found = append(result.Found, f.Found)
	}
	return result, nil
}

// wordsFor gives the different words of a query.
func wordsFor(text string) []knowledgedb.QueryWord {
	var words []knowledgedb.QueryWord
	seen := map[string]bool{}
	for _, w := range analysis.Query(text) {
		if seen[w.Text] || len(words) == maxWords {
			continue
		}
		seen[w.Text] = true
		words = append(words, knowledgedb.QueryWord{Text: w.Text, Lexemes: w.Lexemes})
	}
	return words
}

// documentIDs gives the ids that can be some documents'. false: none can, so there is nowhere to search, rather than everywhere.
func documentIDs(named []string) (ids []string, somewhere bool) {
	for _, id := range named {
		if strings.HasPrefix(id, "doc_") && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			ids = append(ids, id)
		}
	}
	return ids, len(ids) > 0 || len(named) == 0
}

// beginning gives at most so many characters of a text.
func beginning(text string, maximum int) string {
	for at := range text {
		if maximum == 0 {
			return text[:at]
		}
		maximum--
	}
	return text
}

// candidate is a passage that was found, with what is known of it beside.
type candidate struct {
	domain.Found

	similarity float64 // of its vector to the query's; 0 when it was not found by it
}

// passages gives the texts of what was found.
func (s *Searcher) passages(ctx context.Context, org string, hits []fusedHit) ([]candidate, error) {
	ids := make([]int64, len(hits))
	for n, h := range hits {
		ids[n] = h.chunk
	}
	if len(ids) == 0 {
		return nil, nil
	}
	texts, err := s.store.Passages(ctx, org, ids)
	if err != nil {
		return nil, err
	}
	if len(texts) == len(ids) {
		list := make([]candidate, len(ids))
		for n, h := range hits {
			list[n] = h.with(texts[n])
		}
		return list, nil
	}
	var list []candidate // some went in the meantime, and which ones these texts do not tell
	for _, h := range hits {
		one, err := s.store.Passages(ctx, org, []int64{h.chunk})
		if err != nil {
			return nil, err
		}
		if len(one) == 1 {
			list = append(list, h.with(one[0]))
		}
	}
	return list, nil
}

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

// The sources of a search, as used in Found.MatchedBy and Result.Without.
const (
	ByText    = "text"
	ByTrigram = "trigram"
	ByVector  = "vector"
)

const (
	defaultLimit = 10
	maxLimit     = 50
	maxQuery     = 1_000 // maximum number of characters in a query; the rest is ignored
	maxID        = 64    // bytes of a document's id
	maxWords     = 64    // maximum number of words in a query; more words add little, and each word is searched for
)

// Index finds the best chunks, according to one source per method. Scores are comparable only
// within the results of one search.
type Index interface {
	// SearchText finds chunks that contain at least one of the words. Rare words count more.
	SearchText(ctx context.Context, scope knowledgedb.SearchScope, words []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error)

	// SearchSimilar replaces words that no document contains with similarly spelled words, and
	// searches for these.
	SearchSimilar(ctx context.Context, scope knowledgedb.SearchScope, words []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error)

	// SearchVectors finds the chunks whose vectors, computed by the same model, are nearest to a vector.
	SearchVectors(ctx context.Context, scope knowledgedb.SearchScope, model string, vector []float32, limit int) ([]knowledgedb.Hit, error)
}

// Store reads the documents.
type Store interface {
	Index
	// KnowledgeWords returns the number of chunks in the organization's documents, and the number
	// of these chunks that contain each lexeme.
	KnowledgeWords(ctx context.Context, org string, lexemes []string) (chunks int64, counts map[string]int64, err error)
	// Passages returns the texts of chunks, in order. It omits chunks that no longer exist.
	Passages(ctx context.Context, org string, chunks []int64) ([]domain.Passage, error)
}

// Embedder computes vectors of texts. Model returns "" if no model is configured.
type Embedder interface {
	Model() string
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Query is a search query and its scope.
type Query struct {
	OrganizationID string
	Text           string
	DocumentIDs    []string          // empty: all documents of the organization
	Metadata       map[string]string // key-value pairs; a document must have all of them
	Limit          int               // 1 to 50; 0 is 10
	// Supported omits passages that are hardly or not at all related to the query.
	Supported bool
}

// Result contains the passages found, best first.
type Result struct {
	Found []domain.Found
	// Without contains the names of the sources that failed.
	Without []string
}

// Searcher searches documents. It is safe for concurrent use.
type Searcher struct {
	store    Store
	embedder Embedder
	breaker  breaker
}

// New creates a Searcher.
func New(s Store, e Embedder) *Searcher {
	return &Searcher{store: s, embedder: e, breaker: breaker{now: time.Now}}
}

// Search returns the passages that match a query best. For a query without words, it returns no
// passages. It fails if the text search fails or ctx ends.
func (s *Searcher) Search(ctx context.Context, q Query) (Result, error) {
	text := beginning(q.Text, maxQuery)
	words := wordsFor(text)
	// An invalid id can belong to no document. It is removed because the database would reject it.
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
		maximum = min(2*limit, maxLimit) // more than requested, because unsupported ones are removed later
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

// wordsFor returns the words of a query without duplicates.
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

// documentIDs returns the valid ids in named. somewhere is false if named is not empty but contains
// no valid id. In that case the search must find no passages, instead of searching all documents.
func documentIDs(named []string) (ids []string, somewhere bool) {
	for _, id := range named {
		if strings.HasPrefix(id, "doc_") && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			ids = append(ids, id)
		}
	}
	return ids, len(ids) > 0 || len(named) == 0
}

// beginning returns a text truncated to maximum characters.
func beginning(text string, maximum int) string {
	for at := range text {
		if maximum == 0 {
			return text[:at]
		}
		maximum--
	}
	return text
}

// candidate is a passage with the data that decides whether it is supported.
type candidate struct {
	domain.Found

	similarity float64 // cosine similarity of its vector and the query's; 0 if the vector search did not find the passage
}

// passages reads the texts of hits.
func (s *Searcher) passages(ctx context.Context, org string, hits []fusedHit) ([]candidate, error) {
	ids := make([]int64, len(hits))
	for n, h := range hits {
		ids[n] = h.chunk
	}
	if len(ids) == 0 {
		return nil, nil
	}

	// Usually all chunks still exist, so a single query reads all of them.
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
	var list []candidate // some chunks no longer exist; read the chunks individually to find out which
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

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

// Names of the sources of a search, in Found.MatchedBy and Result.Without.
const (
	ByText    = "text"
	ByTrigram = "trigram"
	ByVector  = "vector"
)

const (
	defaultLimit = 10
	maxLimit     = 50
	maxQuery     = 1_000 // maximum length of a query in characters; the rest is ignored
	maxID        = 64    // bytes of a document's id
	maxWords     = 64    // maximum number of words of a query; each word costs a search, and more words improve the results little
)

// Index finds the best chunks, with one method for each source. Scores are comparable only within
// the results of one search.
type Index interface {
	// SearchText finds chunks that contain at least one of the words. The rarer a word is, the more
	// weight it has.
	SearchText(ctx context.Context, scope knowledgedb.SearchScope, words []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error)

	// SearchSimilar finds chunks by similar spelling. It replaces each word that no document
	// contains with similar words.
	SearchSimilar(ctx context.Context, scope knowledgedb.SearchScope, words []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error)

	// SearchVectors finds the chunks whose vectors are nearest to the given vector. Only vectors of
	// the same model are compared.
	SearchVectors(ctx context.Context, scope knowledgedb.SearchScope, model string, vector []float32, limit int) ([]knowledgedb.Hit, error)
}

// Store reads the documents.
type Store interface {
	Index
	// KnowledgeWords returns the number of chunks in the organization's documents, and the number
	// of these chunks that contain each lexeme.
	KnowledgeWords(ctx context.Context, org string, lexemes []string) (chunks int64, counts map[string]int64, err error)
	// Passages returns the texts of the given chunks, in order. It omits chunks that no longer
	// exist.
	Passages(ctx context.Context, org string, chunks []int64) ([]domain.Passage, error)
	// FirstPassages returns the first chunk of each of the newest documents in the scope, the
	// newest document first.
	FirstPassages(ctx context.Context, scope knowledgedb.SearchScope, limit int) ([]domain.Passage, error)
}

// Embedder computes vectors of texts. If no model is configured, Model returns "".
type Embedder interface {
	Model() string
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Query is a search query with its scope.
type Query struct {
	OrganizationID string
	Text           string
	DocumentIDs    []string          // if empty, all documents of the organization are searched
	Metadata       map[string]string // a document must have all of these pairs
	Limit          int               // maximum number of passages, from 1 to 50; 0 means 10
	// Supported omits passages that are hardly related or not related to the query.
	Supported bool
}

// Result contains the passages that were found, the best first.
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

// Search returns the passages that match a query best. A query without words has no results. Search
// fails if the text search fails, if counting the words or reading the passages fails, or if ctx
// ends.
func (s *Searcher) Search(ctx context.Context, q Query) (Result, error) {
	text := beginning(q.Text, maxQuery)
	words := wordsFor(text)
	// Invalid ids are removed, because they belong to no document and the database would reject
	// them.
	ids, somewhere := documentIDs(q.DocumentIDs)
	if len(words) == 0 || !somewhere {
		return Result{}, nil
	}

	q.DocumentIDs = ids
	limit := passageLimit(q)
	asked := s.ask(ctx, q, text, words)
	if asked.err != nil {
		return Result{}, asked.err
	}

	result := Result{Without: asked.without}
	fused := fuse(asked.ranks)
	maximum := limit
	if q.Supported {
		maximum = min(2*limit, maxLimit) // more passages than requested, because unsupported passages are removed later
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

// First returns the first passage of each of the newest documents in the scope of q, the newest
// document first. It ignores the text of q.
func (s *Searcher) First(ctx context.Context, q Query) ([]domain.Found, error) {
	ids, somewhere := documentIDs(q.DocumentIDs)
	if !somewhere {
		return nil, nil
	}
	scope := knowledgedb.SearchScope{OrganizationID: q.OrganizationID, DocumentIDs: ids, Metadata: q.Metadata}
	passages, err := s.store.FirstPassages(ctx, scope, passageLimit(q))
	if err != nil {
		return nil, fmt.Errorf("reading first passages: %w", err)
	}
	found := make([]domain.Found, len(passages))
	for i, p := range passages {
		found[i] = domain.Found{Passage: p}
	}
	return found, nil
}

// passageLimit returns the maximum number of passages that a query returns.
func passageLimit(q Query) int {
	if q.Limit <= 0 {
		return defaultLimit
	}
	return min(q.Limit, maxLimit)
}

// wordsFor returns the first maxWords words of a query without duplicates.
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

// documentIDs returns the valid ids in the argument named. The result somewhere is false if named
// contains only invalid ids. In that case the search must return no passages instead of searching
// all documents.
func documentIDs(named []string) (ids []string, somewhere bool) {
	for _, id := range named {
		if strings.HasPrefix(id, "doc_") && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			ids = append(ids, id)
		}
	}
	return ids, len(ids) > 0 || len(named) == 0
}

// beginning truncates a text to the number of characters in the argument maximum.
func beginning(text string, maximum int) string {
	for at := range text {
		if maximum == 0 {
			return text[:at]
		}
		maximum--
	}
	return text
}

// candidate is a passage with the information that decides whether it is related to the query.
type candidate struct {
	domain.Found

	similarity float64 // cosine similarity to the query, or 0 if the vector search has not found the passage
}

// passages reads the texts of the given hits.
func (s *Searcher) passages(ctx context.Context, org string, hits []fusedHit) ([]candidate, error) {
	ids := make([]int64, len(hits))
	for n, h := range hits {
		ids[n] = h.chunk
	}
	if len(ids) == 0 {
		return nil, nil
	}

	// Usually all chunks still exist, so one query suffices to read all of them.
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
	var list []candidate // some chunks no longer exist, so each chunk is read individually
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

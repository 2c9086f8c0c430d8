package retrieval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/shared/store/knowledgedb"
)

// vectorTimeout is the maximum time that a search waits for the vector of its query.
const vectorTimeout = 2 * time.Second

// errNoDocuments is the cause with which a search is cancelled if the organization has no
// documents.
var errNoDocuments = errors.New("the organization has no documents")

// answers contains the results that all sources of a search have returned.
type answers struct {
	// The chunks that each source has found.
	ranks ranks
	// Names of the sources that failed.
	without []string
	chunks  int64            // total number of chunks of the organization
	counts  map[string]int64 // number of chunks that contain each lexeme
	err     error            // error because of which the search has failed
}

// searchRun is a search in progress.
type searchRun struct {
	*Searcher

	query Query
	text  string
	words []knowledgedb.QueryWord
	scope knowledgedb.SearchScope

	mu  sync.Mutex
	got answers
}

// ask queries all sources in parallel. The result's field without lists the sources that failed. If
// the text search or counting the words fails, the whole search fails.
func (s *Searcher) ask(ctx context.Context, q Query, text string, words []knowledgedb.QueryWord) answers {
	a := &searchRun{Searcher: s, query: q, text: text, words: words, got: answers{ranks: ranks{}}}
	a.scope = knowledgedb.SearchScope{OrganizationID: q.OrganizationID, DocumentIDs: q.DocumentIDs, Metadata: q.Metadata}

	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	vectors := s.embedder != nil && s.embedder.Model() != ""
	if q.Supported || vectors { // the counts are needed only in these two cases
		all.Go(func() { a.count(within, cancel) })
	}
	all.Go(func() { a.byWords(within, ByText, s.store.SearchText) })
	all.Go(func() { a.byWords(within, ByTrigram, s.store.SearchSimilar) })
	if vectors {
		all.Go(func() { a.byVector(within) })
	}
	all.Wait()

	// All goroutines have ended, so no lock is needed to read a.got.
	switch {
	case ctx.Err() != nil:
		return answers{err: fmt.Errorf("searching documents: %w", context.Cause(ctx))}
	case errors.Is(context.Cause(within), errNoDocuments):
		return answers{}
	}
	slices.Sort(a.got.without)
	return a.got
}

// count looks up how many chunks contain each word of the query. If the organization has no
// documents, count cancels the search.
func (a *searchRun) count(ctx context.Context, cancel context.CancelCauseFunc) {
	var lexemes []string
	for _, w := range a.words {
		lexemes = append(lexemes, w.Lexemes...)
	}
	slices.Sort(lexemes)
	chunks, counts, err := a.store.KnowledgeWords(ctx, a.scope.OrganizationID, slices.Compact(lexemes))
	// Without documents, no source can find anything, and computing the vector would cost money.
	if err == nil && chunks == 0 {
		cancel(errNoDocuments)
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	if a.got.chunks, a.got.counts = chunks, counts; err != nil {
		a.fail(fmt.Errorf("counting words: %w", err))
	}
}

// fail records the first error. The caller must hold the lock.
func (a *searchRun) fail(err error) {
	if a.got.err == nil {
		a.got.err = err
	}
}

// byWords is the type of the store's methods that search for the words of a query.
type byWords func(ctx context.Context, scope knowledgedb.SearchScope, words []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error)

// byWords calls one of the searches for words and stores the results under the name of the source.
func (a *searchRun) byWords(ctx context.Context, source string, search byWords) {
	hits, err := search(ctx, a.scope, a.words, depth)

	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.got.ranks[source] = hits
	// Without the text search, a search would miss most passages, so its failure is an error.
	case source == ByText:
		a.fail(fmt.Errorf("searching by words: %w", err))
	// Results for similar words are optional, so the search continues without them.
	default:
		a.got.without = append(a.got.without, source)
	}
}

// byVector searches with the vector of the query.
func (a *searchRun) byVector(ctx context.Context) {
	hits, err := a.nearest(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	// The reply names the missing source, so that callers can report it.
	if err != nil {
		a.got.without = append(a.got.without, ByVector)
		return
	}
	a.got.ranks[ByVector] = hits
}

// nearest computes the vector of the query, and returns the chunks with the nearest vectors. If the
// embeddings service has repeatedly not responded a short time ago, nearest fails immediately.
func (a *searchRun) nearest(ctx context.Context) ([]knowledgedb.Hit, error) {
	if !a.breaker.open() {
		return nil, errAway
	}

	// The searches for words are fast, so their results wait only a limited time for the embeddings
	// service.
	within, cancel := context.WithTimeout(ctx, vectorTimeout)
	defer cancel()
	vectors, err := a.embedder.Embed(within, []string{a.text})
	// Only timeouts open the breaker. An error response does not delay the search, and its cause may
	// be this organization's query.
	switch {
	case err == nil:
		a.breaker.note(true)
	case within.Err() != nil && ctx.Err() == nil:
		a.breaker.note(false)
	}
	if err != nil {
		return nil, fmt.Errorf("embedding query: %w", err)
	}
	if len(vectors) != 1 {
		return nil, errNoVector
	}

	return a.store.SearchVectors(ctx, a.scope, a.embedder.Model(), vectors[0], depth)
}

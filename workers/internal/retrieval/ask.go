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

// vectorWithin is how long a search waits for the query's vector.
const vectorWithin = 2 * time.Second

// errNoDocuments ends what is under way of a search where there is nothing to find.
var errNoDocuments = errors.New("the organization has no documents")

// answers are what the sources gave.
type answers struct {
	ranks   ranks
	without []string
	chunks  int64            // of the organization
	counts  map[string]int64 // how many of them have a lexeme
	err     error            // nothing can be said
}

// asking is a search under way.
type asking struct {
	*Searcher

	query Query
	text  string
	words []knowledgedb.QueryWord
	scope knowledgedb.SearchScope

	mu  sync.Mutex
	got answers
}

// ask asks all sources at the same time. Of those that fail, a search goes without, but for the text.
func (s *Searcher) ask(ctx context.Context, q Query, text string, words []knowledgedb.QueryWord) answers {
	a := &asking{Searcher: s, query: q, text: text, words: words, got: answers{ranks: ranks{}}}
	a.scope = knowledgedb.SearchScope{OrganizationID: q.OrganizationID, DocumentIDs: q.DocumentIDs, Metadata: q.Metadata}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	vectors := s.embedder != nil && s.embedder.Model() != ""
	if q.Supported || vectors { // else nobody wants to know
		all.Go(func() { a.count(within, cancel) })
	}
	all.Go(func() { a.byWords(within, ByText, s.store.SearchText) })
	all.Go(func() { a.byWords(within, ByTrigram, s.store.SearchSimilar) })
	if vectors {
		all.Go(func() { a.byVector(within) })
	}
	all.Wait()
	switch {
	case ctx.Err() != nil:
		return answers{err: fmt.Errorf("searching documents: %w", context.Cause(ctx))}
	case errors.Is(context.Cause(within), errNoDocuments):
		return answers{}
	}
	slices.Sort(a.got.without)
	return a.got
}

// count asks how frequent the words are. Where there is nothing to find, the search is over.
func (a *asking) count(ctx context.Context, cancel context.CancelCauseFunc) {
	var lexemes []string
	for _, w := range a.words {
		lexemes = append(lexemes, w.Lexemes...)
	}
	slices.Sort(lexemes)
	chunks, counts, err := a.store.KnowledgeWords(ctx, a.scope.OrganizationID, slices.Compact(lexemes))
	if err == nil && chunks == 0 {
		cancel(errNoDocuments)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.got.chunks, a.got.counts = chunks, counts; err != nil {
		a.fail(fmt.Errorf("counting words: %w", err))
	}
}

// fail is called under the lock.
func (a *asking) fail(err error) {
	if a.got.err == nil {
		a.got.err = err
	}
}

type byWords func(ctx context.Context, scope knowledgedb.SearchScope, words []knowledgedb.QueryWord, limit int) ([]knowledgedb.Hit, error)

func (a *asking) byWords(ctx context.Context, source string, search byWords) {
	hits, err := search(ctx, a.scope, a.words, depth)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.got.ranks[source] = hits
	case source == ByText:
		a.fail(fmt.Errorf("searching by words: %w", err))
	default:
		a.got.without = append(a.got.without, source)
	}
}

func (a *asking) byVector(ctx context.Context) {
	hits, err := a.nearest(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.got.without = append(a.got.without, ByVector)
		return
	}
	a.got.ranks[ByVector] = hits
}

// nearest asks for the query's vector, unless the service was away just now, and finds those nearest to it.
func (a *asking) nearest(ctx context.Context) ([]knowledgedb.Hit, error) {
	if !a.gate.open() {
		return nil, errAway
	}
	within, cancel := context.WithTimeout(ctx, vectorWithin)
	defer cancel()
	vectors, err := a.embedder.Embed(within, []string{a.text})
	if ctx.Err() == nil { // else the search is over, and nothing is known of the service
		a.gate.note(err == nil)
	}
	if err != nil {
		return nil, fmt.Errorf("embedding query: %w", err)
	}
	if len(vectors) != 1 {
		return nil, errNoVector
	}
	return a.store.SearchVectors(ctx, a.scope, a.embedder.Model(), vectors[0], depth)
}

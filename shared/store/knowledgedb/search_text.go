package knowledgedb

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// SearchScope is what is searched: ready documents of one organization.
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

// documents gives what a scope restricts a search to as the schema's functions take it. Ids that are none are of no document.
func (scope SearchScope) documents() (ids any, metadata string, err error) {
	list := make([]string, len(scope.DocumentIDs))
	for i, id := range scope.DocumentIDs {
		if storable(id) {
			list[i] = id
		}
	}
	if len(scope.Metadata) == 0 {
		return pq.Array(list), "{}", nil
	}
	written, err := json.Marshal(scope.Metadata)
	if err != nil {
		return nil, "", fmt.Errorf("writing metadata: %w", err)
	}
	return pq.Array(list), string(written), nil
}

// searchable reports whether a scope can have anything: what cannot be stored is nobody's.
func (scope SearchScope) searchable() bool {
	ok := scope.OrganizationID != "" && storable(scope.OrganizationID)
	for key, value := range scope.Metadata {
		ok = ok && storable(key) && storable(value)
	}
	return ok
}

// queryLexemes gives the lexemes of words and, beside each, the number of its word.
func queryLexemes(words []QueryWord) (numbers []int64, lexemes []string) {
	numbers, lexemes = []int64{}, []string{}
	for i, w := range words {
		for _, l := range w.Lexemes {
			if usable(l) {
				numbers, lexemes = append(numbers, int64(i)), append(lexemes, l)
			}
		}
	}
	return numbers, lexemes
}

// SearchText gives up to limit chunks that have some of the words, the best ones first: those that have the most of them, where
// rare words count for more. How rare a word is, all ready documents of the organization say, whatever the scope.
func (s *Store) SearchText(ctx context.Context, scope SearchScope, words []QueryWord, limit int) ([]Hit, error) {
	numbers, lexemes := queryLexemes(words)
	if len(lexemes) == 0 || limit <= 0 || !scope.searchable() {
		return nil, nil
	}
	ids, metadata, err := scope.documents()
	if err != nil {
		return nil, err
	}
	weights := make([]float64, len(lexemes))
	for i := range weights {
		weights[i] = 1
	}
	var hits []Hit
	err = s.db.Within(ctx, []string{scope.OrganizationID}, func(tx *sqlx.Tx) error {
		hits = hits[:0]
		return tx.SelectContext(ctx, &hits, `SELECT chunk_id, score FROM search_terms($1, $2, $3, $4, $5, $6, $7, $8)`,
			scope.OrganizationID, lexemePrefix(scope.OrganizationID), pq.Array(numbers), pq.Array(lexemes), pq.Array(weights), ids, metadata, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("searching words: %w", err)
	}
	return hits, nil
}

package knowledgedb

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// SearchScope restricts a search to ready documents of one organization. The conditions are
// combined with AND.
type SearchScope struct {
	OrganizationID string
	DocumentIDs    []string          // ids of the documents to search; empty: all
	Metadata       map[string]string // entries of the metadata, all of which the documents must have
}

// QueryWord is a word of a query.
type QueryWord struct {
	Text    string   // as written, but case-folded
	Lexemes []string // the forms in which the word may be indexed
}

// Hit is a chunk found by a search. A higher score is better; scores of different searches
// are not comparable.
type Hit struct {
	ChunkID int64   `db:"chunk_id"`
	Score   float64 `db:"score"`
}

// documents encodes the scope as arguments of the schema's functions.
func (scope SearchScope) documents() (ids any, metadata string, err error) {
	list := make([]string, len(scope.DocumentIDs))
	for i, id := range scope.DocumentIDs {
		// An id that cannot be stored is replaced by "", which is the id of no document.
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

// searchable reports whether the scope can match any document. It returns false if the scope
// contains text that PostgreSQL cannot store.
func (scope SearchScope) searchable() bool {
	ok := scope.OrganizationID != "" && storable(scope.OrganizationID)
	for key, value := range scope.Metadata {
		ok = ok && storable(key) && storable(value)
	}
	return ok
}

// queryLexemes returns the lexemes of words and, for each lexeme, the index of its word.
func queryLexemes(words []QueryWord) (numbers []int64, lexemes []string) {
	numbers, lexemes = []int64{}, []string{}
	for i, w := range words {
		for _, l := range w.Lexemes {
			if indexable(l) {
				numbers, lexemes = append(numbers, int64(i)), append(lexemes, l)
			}
		}
	}
	return numbers, lexemes
}

// SearchText returns up to limit chunks that contain at least one of the words, best first. A chunk
// that contains more of the words has a higher score, and rare words count more. A word's rarity is
// measured over all ready documents of the organization, regardless of the scope. Words without an
// indexable lexeme are ignored; if no other word is left, there are no hits.
func (s *Store) SearchText(ctx context.Context, scope SearchScope, words []QueryWord, limit int) ([]Hit, error) {
	numbers, lexemes := queryLexemes(words)
	if len(lexemes) == 0 || limit <= 0 || !scope.searchable() {
		return nil, nil
	}

	ids, metadata, err := scope.documents()
	if err != nil {
		return nil, err
	}

	// All words have the same weight here. The SQL function needs weights for SearchSimilar, which
	// weights words by their similarity.
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

package knowledgedb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/store/pg"
)

// SearchSimilar is like SearchText, but corrects misspelled words. Each word that occurs in no
// document of the organization is replaced with similarly spelled words that do occur. A hit must
// contain one of these replacements. SearchSimilar returns no hits if the documents contain every
// word.
func (s *Store) SearchSimilar(ctx context.Context, scope SearchScope, words []QueryWord, limit int) ([]Hit, error) {
	if len(words) == 0 || limit <= 0 || !scope.searchable() {
		return nil, nil
	}

	ids, metadata, err := scope.documents()
	if err != nil {
		return nil, err
	}

	numbers, lexemes := queryLexemes(words)
	texts := pg.Column(words, func(w *QueryWord) string {
		// A word that is skipped keeps its index, because numbers contains the indexes of words.
		if !storable(w.Text) {
			return ""
		}
		return w.Text
	})

	var hits []Hit
	err = s.db.Within(ctx, []string{scope.OrganizationID}, func(tx *sqlx.Tx) error {
		hits = hits[:0]
		return tx.SelectContext(ctx, &hits, `SELECT chunk_id, score FROM search_similar($1, $2, $3, $4, $5, $6, $7, $8)`,
			scope.OrganizationID, lexemePrefix(scope.OrganizationID), pq.Array(numbers), pq.Array(lexemes), pq.Array(texts), ids, metadata, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("searching similar words: %w", err)
	}

	return hits, nil
}

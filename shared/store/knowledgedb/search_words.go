package knowledgedb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// KnowledgeWords returns the number of chunks of an organization's ready documents, and for each of
// the lexemes the number of chunks that contain it. A lexeme that occurs nowhere is missing in the
// result. If a document has very many words, its rare lexemes are not counted.
func (s *Store) KnowledgeWords(ctx context.Context, org string, lexemes []string) (chunks int64, counts map[string]int64, err error) {
	terms := make([]string, 0, len(lexemes))
	for _, l := range lexemes {
		// Lexemes that cannot be indexed occur in no document.
		if indexable(l) {
			terms = append(terms, l)
		}
	}

	var rows []struct {
		Term   string `db:"term"`
		Chunks int64  `db:"chunks"`
	}
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.SelectContext(ctx, &rows, `SELECT term, chunks FROM knowledge_terms WHERE org_id = $1 AND term = ''
			UNION ALL SELECT term, chunks FROM known_terms($1, $2, $3)`, org, lexemePrefix(org), pq.Array(terms))
	})
	if err != nil {
		return 0, nil, fmt.Errorf("counting words of documents: %w", err)
	}

	counts = make(map[string]int64, len(rows))
	for _, r := range rows {
		counts[r.Term] = r.Chunks
	}

	// The row whose term is empty contains the number of all chunks.
	chunks = counts[""]
	delete(counts, "")
	return chunks, counts, nil
}

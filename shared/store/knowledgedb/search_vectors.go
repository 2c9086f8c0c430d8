package knowledgedb

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// vectorsCompared is the maximum number of vectors that a search compares exactly. If there are
// more vectors, the search chooses the vectors whose signs differ the least from the query's signs.
// A hit may therefore be missed.
const vectorsCompared = 2000

// SearchVectors returns up to limit chunks whose vectors are the nearest to the given unit vector,
// nearest first. The score is the dot product of the two vectors. SearchVectors compares only
// vectors of the same model with the same number of dimensions.
func (s *Store) SearchVectors(ctx context.Context, scope SearchScope, model string, vector []float32, limit int) ([]Hit, error) {
	if len(vector) == 0 || limit <= 0 || !scope.searchable() {
		return nil, nil
	}

	ids, metadata, err := scope.documents()
	if err != nil {
		return nil, err
	}

	var rows []struct {
		ChunkID int64    `db:"chunk_id"`
		Score   *float64 `db:"score"`
		Numbers []byte   `db:"numbers"` // nil: Score is exact
	}

	// The statement is prepared, because the results of other statements have byte strings in
	// hexadecimal.
	const query = `SELECT chunk_id, score, numbers FROM search_vectors($1, $2, $3, $4, $5, $6, $7, $8)`
	err = s.db.WithinPrepared(ctx, scope.OrganizationID, query, func(stmt *sqlx.Stmt) error {
		rows = rows[:0]
		return stmt.SelectContext(ctx, &rows,
			scope.OrganizationID, model, signsFor(vector), pq.Array(vector), ids, metadata, vectorsCompared, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("searching vectors: %w", err)
	}

	// Without pgvector, the database returns vectors instead of scores, and this process compares
	// them with the query's vector.
	hits := make([]Hit, len(rows))
	for i, row := range rows {
		if hits[i].ChunkID = row.ChunkID; row.Score != nil {
			hits[i].Score = *row.Score
		} else if hits[i].Score, err = dotProduct(row.Numbers, vector); err != nil {
			return nil, fmt.Errorf("searching vectors: %w", err)
		}
	}

	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ChunkID, b.ChunkID)) })
	return hits[:min(len(hits), limit)], nil
}

// Sizes in PostgreSQL's array_send encoding: the bytes before the numbers of a one-dimensional
// array, and the bytes per number (its length and its value).
const (
	arrayHead   = 20
	arrayNumber = 8
)

// dotProduct returns the dot product of two vectors. The first vector is in the encoding of
// PostgreSQL's array_send.
func dotProduct(sent []byte, vector []float32) (float64, error) {
	if len(sent) != arrayHead+arrayNumber*len(vector) {
		return 0, fmt.Errorf("a vector of %d bytes cannot contain %d numbers", len(sent), len(vector))
	}
	sum := 0.0
	for i, v := range vector {
		at := sent[arrayHead+i*arrayNumber+arrayNumber/2:]
		sum += float64(math.Float32frombits(binary.BigEndian.Uint32(at))) * float64(v)
	}
	return sum, nil
}

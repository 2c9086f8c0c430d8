package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the PostgreSQL driver of Plain
)

// Plain uses PostgreSQL's full text search for English to search the passages that Parley has
// stored. It also searches document names and headings, because Parley does. It is the baseline for
// the quality and the latency of Parley's search.
type Plain struct{ db *sqlx.DB }

// plainQuery finds the passages with any of the words of $1, the best ten first.
const plainQuery = `WITH q AS (SELECT replace(plainto_tsquery('english', $1)::text, ' & ', ' | ')::tsquery AS q)
	SELECT p.text FROM plain p, q WHERE p.terms @@ q.q ORDER BY ts_rank(p.terms, q.q) DESC, p.id LIMIT 10`

// OpenPlain connects to a database and creates an index of its passages.
func OpenPlain(ctx context.Context, dsn string) (*Plain, error) {
	db, err := sqlx.ConnectContext(ctx, "postgres", dsn)
	if err != nil {
		return nil, fmt.Errorf("connecting to database: %w", err)
	}

	for _, statement := range []string{
		`DROP TABLE IF EXISTS plain`,
		`CREATE TABLE plain AS SELECT c.id, c.text,
			to_tsvector('english', d.name || ' ' || array_to_string(c.headings, ' ') || ' ' || c.text) AS terms
			FROM document_chunks c JOIN documents d ON d.id = c.document_id`,
		`CREATE INDEX ON plain USING gin (terms)`,
		`VACUUM ANALYZE plain`,
		`VACUUM ANALYZE document_chunks`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("preparing PostgreSQL's own search: %w", err), db.Close())
		}
	}
	return &Plain{db}, nil
}

// Close closes the connection.
func (p *Plain) Close() error { return p.db.Close() }

// Search returns the best passages that contain at least one of the question's words.
func (p *Plain) Search(ctx context.Context, question string) (texts []string, err error) {
	if err := p.db.SelectContext(ctx, &texts, plainQuery, question); err != nil {
		return nil, fmt.Errorf("searching: %w", err)
	}
	return texts, nil
}

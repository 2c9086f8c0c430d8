package retrieval

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the driver of the plain query
)

// plain is PostgreSQL's full text search on the passages that Parley made, with its own configuration for English: names and
// headings are searched as well, for Parley searches them too.
type plain struct{ db *sqlx.DB }

const (
	anyWord = `WITH q AS (SELECT replace(plainto_tsquery('english', $1)::text, ' & ', ' | ')::tsquery AS q)
		SELECT p.name, p.text FROM plain p, q WHERE p.terms @@ q.q ORDER BY ts_rank(p.terms, q.q) DESC, p.id LIMIT 10`
	allWords = `WITH q AS (SELECT plainto_tsquery('english', $1) AS q)
		SELECT p.name, p.text FROM plain p, q WHERE p.terms @@ q.q ORDER BY ts_rank(p.terms, q.q) DESC, p.id LIMIT 10`
)

func openPlain(ctx context.Context, dsn string) (*plain, error) {
	db, err := sqlx.ConnectContext(ctx, "postgres", dsn)
	if err != nil {
		return nil, fmt.Errorf("connecting to database: %w", err)
	}
	for _, statement := range []string{
		`CREATE TABLE plain AS SELECT c.id, d.name, c.text,
			to_tsvector('english', d.name || ' ' || array_to_string(c.headings, ' ') || ' ' || c.text) AS terms
			FROM document_chunks c JOIN documents d ON d.id = c.document_id`,
		`CREATE INDEX ON plain USING gin (terms)`,
		`ANALYZE plain`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("preparing PostgreSQL's own search: %w", err), db.Close())
		}
	}
	return &plain{db}, nil
}

func (p *plain) count(ctx context.Context) (n int, err error) {
	if err := p.db.GetContext(ctx, &n, `SELECT count(*) FROM plain`); err != nil {
		return 0, fmt.Errorf("counting passages: %w", err)
	}
	return n, nil
}

func (p *plain) search(query string) searcher {
	return func(ctx context.Context, question string) ([]Passage, error) {
		var rows []struct {
			Name string `db:"name"`
			Text string `db:"text"`
		}
		if err := p.db.SelectContext(ctx, &rows, query, question); err != nil {
			return nil, fmt.Errorf("searching: %w", err)
		}
		found := make([]Passage, 0, len(rows))
		for _, row := range rows {
			found = append(found, Passage{Document: pageOf(row.Name), Text: row.Text})
		}
		return found, nil
	}
}

// pageOf is the manual page that was uploaded under a name.
func pageOf(name string) string { return strings.TrimSuffix(name, ".html") }

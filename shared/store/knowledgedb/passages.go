package knowledgedb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// passageRow is a row of passageSelect: a chunk with the name of its document.
type passageRow struct {
	DocumentID string          `db:"document_id"`
	Name       string          `db:"name"`
	N          int             `db:"n"`
	Page       *int            `db:"page"`
	Headings   pq.StringArray  `db:"headings"`
	Text       string          `db:"text"`
	StartAt    int             `db:"start_at"`
	EndAt      int             `db:"end_at"`
	Box        pq.Float64Array `db:"box"`
}

// passage converts the row to a passage. The passage has no Box if the document's format has no
// positions.
func (row *passageRow) passage() domain.Passage {
	out := domain.Passage{
		DocumentID: row.DocumentID, Name: row.Name, Chunk: row.N, Page: row.Page, Headings: append([]string{}, row.Headings...),
		Text: row.Text, StartIndex: row.StartAt, EndIndex: row.EndAt,
	}
	if len(row.Box) == len(domain.Box{}) {
		out.Box = (*domain.Box)(row.Box)
	}
	return out
}

// passageSelect is the start of a statement that reads chunks c of documents d. A FROM clause
// follows.
const passageSelect = `SELECT c.document_id, d.name, c.n, c.page, c.headings, c.text, c.start_at, c.end_at, c.box `

// Passages returns chunks of an organization's ready documents in the order of the ids in chunks,
// for example the hits of a search. Chunks that no longer exist are omitted.
func (s *Store) Passages(ctx context.Context, org string, chunks []int64) ([]domain.Passage, error) {
	return readPassages(ctx, s.db, org, `FROM unnest($2::bigint[]) WITH ORDINALITY AS u (id, place)
		JOIN document_chunks c ON c.id = u.id AND c.org_id = $1
		JOIN documents d ON d.id = c.document_id AND d.org_id = c.org_id AND d.status = 'ready' ORDER BY u.place`, pq.Array(chunks))
}

// DocumentPassages returns up to limit chunks of a page of a ready document, in order. It returns
// none for an unknown document or page.
func (s *Store) DocumentPassages(ctx context.Context, org, id string, page, limit int) ([]domain.Passage, error) {
	return readPassages(ctx, s.db, org, fromDocument+`AND c.page = $3 ORDER BY c.n LIMIT $4`, id, page, limit)
}

// DocumentPassagesAround returns a chunk of a ready document, by its number, and the neighboring
// chunks. The argument around is the maximum number of neighbors on each side.
func (s *Store) DocumentPassagesAround(ctx context.Context, org, id string, chunk, around int) ([]domain.Passage, error) {
	return readPassages(ctx, s.db, org, fromDocument+`AND c.n BETWEEN $3::bigint - $4 AND $3::bigint + $4 ORDER BY c.n`, id, chunk, around)
}

// fromDocument selects the chunks c of document $2 of organization $1, if the document is ready.
const fromDocument = `FROM documents d JOIN document_chunks c ON c.document_id = d.id AND c.org_id = d.org_id
	WHERE d.id = $2 AND d.org_id = $1 AND d.status = 'ready' `

// FirstPassages returns the first chunk of each of the newest documents in the scope, the newest
// document first. The argument limit is the maximum number of documents.
func (s *Store) FirstPassages(ctx context.Context, scope SearchScope, limit int) ([]domain.Passage, error) {
	if limit <= 0 || !scope.searchable() {
		return nil, nil
	}
	ids, metadata, err := scope.documents()
	if err != nil {
		return nil, err
	}
	return readPassages(ctx, s.db, scope.OrganizationID, `FROM (SELECT d.id, d.org_id, d.name FROM documents d
		WHERE d.org_id = $1 AND d.status = 'ready' AND (cardinality($2::text[]) = 0 OR d.id = ANY ($2::text[])) AND d.metadata @> $3::jsonb
		ORDER BY d.id DESC LIMIT $4) d
		JOIN document_chunks c ON c.document_id = d.id AND c.org_id = d.org_id AND c.n = 0 ORDER BY d.id DESC`, ids, metadata, limit)
}

// readPassages reads chunks of an organization. The argument from is the rest of the statement
// after passageSelect. args are its parameters from $2 on; $1 is the organization.
func readPassages(ctx context.Context, db *pg.DB, org, from string, args ...any) ([]domain.Passage, error) {
	var rows []passageRow
	err := db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, passageSelect+from, append([]any{org}, args...)...)
	})
	if err != nil {
		return nil, fmt.Errorf("reading passages: %w", err)
	}
	return pg.Column(rows, (*passageRow).passage), nil
}

package knowledgedb

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
)

// DocumentRow is a row of the table documents. Other packages that read the table use it with
// DocumentColumns.
type DocumentRow struct {
	ID             string  `db:"id"`
	OrganizationID string  `db:"org_id"`
	Name           string  `db:"name"`
	MIMEType       string  `db:"mime_type"`
	Bytes          int64   `db:"bytes"` // size of the original content; 0: not fetched yet
	Hash           []byte  `db:"hash"`  // nil: not fetched yet
	URL            *string `db:"url"`
	// Status is a domain.DocumentStatus.
	Status       string         `db:"status"`
	ErrorCode    sql.NullString `db:"error_code"`
	ErrorMessage sql.NullString `db:"error_message"`
	Pages        *int           `db:"pages"`
	PagesDone    int            `db:"pages_done"` // processed pages, for showing progress
	Chunks       int            `db:"chunks"`
	Language     string         `db:"language"` // detected; "": unknown
	Notes        []byte         `db:"notes"`    // JSON list of sentences about omitted parts
	Metadata     []byte         `db:"metadata"` // JSON object of strings
	Fence        int64          `db:"fence"`    // guards every write of a worker
	Attempts     int            `db:"attempts"`
	Deadline     sql.NullTime   `db:"deadline"`    // set once the document was claimed
	DispatchNo   int            `db:"dispatch_no"` // distinguishes the job messages of the document
	CreatedAt    domain.Time    `db:"created_at"`
	UpdatedAt    domain.Time    `db:"updated_at"`
}

// DocumentColumns lists the columns of a DocumentRow, for statements in which d is the alias of the
// table documents.
const DocumentColumns = `d.id, d.org_id, d.name, d.mime_type, d.bytes, d.hash, d.url, d.status, d.error_code, d.error_message, d.pages,
	d.pages_done, d.chunks, d.language, d.notes, d.metadata, d.fence, d.attempts, d.deadline, d.dispatch_no, d.created_at, d.updated_at`

// Document converts the row to the document that callers see. A postponed document shows its last
// error until a worker reads the document again.
func (row *DocumentRow) Document() (domain.Document, error) {
	out := domain.Document{
		ID: row.ID, Name: row.Name, MIMEType: row.MIMEType, Bytes: row.Bytes, URL: row.URL, Status: domain.DocumentStatus(row.Status),
		Pages: row.Pages, Done: row.PagesDone, Chunks: row.Chunks, Language: row.Language, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	if row.Hash != nil {
		// The hash is that of the original content, so that callers can compare it with the hash of
		// their file.
		digits := hex.EncodeToString(row.Hash)
		out.SHA256 = &digits
	}

	if out.Status == domain.DocumentFailed || out.Status == domain.DocumentQueued && row.ErrorCode.Valid {
		out.Error = &domain.DocumentError{Code: row.ErrorCode.String, Message: row.ErrorMessage.String}
	}

	if err := json.Unmarshal(row.Notes, &out.Notes); err != nil {
		return out, fmt.Errorf("reading notes of document: %w", err)
	}

	if err := json.Unmarshal(row.Metadata, &out.Metadata); err != nil {
		return out, fmt.Errorf("reading metadata of document: %w", err)
	}

	return out, nil
}

// job returns the job message for a queued document. The RunID of the message is the document's id.
func (row *DocumentRow) job() *domain.Job {
	return &domain.Job{
		RunID: row.ID, OrganizationID: row.OrganizationID, Lane: domain.LaneIngest, Dedupe: row.ID, DispatchNo: row.DispatchNo,
	}
}

// documentsFor converts rows to documents, in the same order.
func documentsFor(rows []DocumentRow) ([]domain.Document, error) {
	out := make([]domain.Document, len(rows))
	for i := range rows {
		var err error
		if out[i], err = rows[i].Document(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// DocumentByID returns a document of an organization. It returns not_found if no document has this
// id.
func (s *Store) DocumentByID(ctx context.Context, org, id string) (domain.Document, error) {
	row, err := s.documentRow(ctx, org, id)
	if err != nil {
		return domain.Document{}, err
	}
	return row.Document()
}

// documentRow reads a document's row without locking it.
func (s *Store) documentRow(ctx context.Context, org, id string) (DocumentRow, error) {
	var row DocumentRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT `+DocumentColumns+` FROM documents d WHERE d.id = $1 AND d.org_id = $2`, id, org)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return DocumentRow{}, pg.NotFound()
	}
	if err != nil {
		return DocumentRow{}, fmt.Errorf("reading document: %w", err)
	}
	return row, nil
}

// DocumentFilter narrows a list of documents. A document must satisfy all fields that are set. Zero
// fields are ignored.
type DocumentFilter struct {
	Query  string // words that the name contains, ignoring case
	Status domain.DocumentStatus
}

// likePattern escapes the special characters of LIKE.
var likePattern = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// DocumentSizes returns the approximate sizes, in bytes, of the documents that Documents lists, in
// the same order. The caller uses them to read no more documents than fit into memory.
func (s *Store) DocumentSizes(ctx context.Context, org string, f DocumentFilter, after string, limit int) ([]int, error) {
	return documentPage[int](ctx, s.db, `octet_length(d.name) + octet_length(d.notes::text) + octet_length(d.metadata::text)
		+ coalesce(octet_length(d.url), 0) + coalesce(octet_length(d.error_message), 0) + 500`, org, f, after, limit)
}

// Documents lists up to limit documents of an organization, newest first. If the argument after is
// not empty, it is the last id of the previous page.
func (s *Store) Documents(ctx context.Context, org string, f DocumentFilter, after string, limit int) ([]domain.Document, error) {
	rows, err := documentPage[DocumentRow](ctx, s.db, DocumentColumns, org, f, after, limit)
	if err != nil {
		return nil, err
	}
	return documentsFor(rows)
}

// documentPage reads columns of the documents on a page of the list, newest first. T is the type of
// a row of these columns.
func documentPage[T any](
	ctx context.Context, db *pg.DB, columns, org string, f DocumentFilter, after string, limit int,
) (rows []T, err error) {
	patterns := []string{}
	for word := range strings.FieldsSeq(f.Query) {
		patterns = append(patterns, "%"+likePattern.Replace(word)+"%")
	}
	query, args := `SELECT `+columns+` FROM documents d WHERE d.org_id = $1 AND ($2 = '' OR d.status = $2)
		AND d.name ILIKE ALL ($3)`, []any{org, string(f.Status), pq.Array(patterns), limit}
	if after != "" {
		query, args = query+` AND d.id < $5`, append(args, after)
	}

	err = db.WithinPage(ctx, org, func(tx *sqlx.Tx) error {
		// The transaction may be retried, so each attempt starts with an empty list.
		rows = nil
		return tx.SelectContext(ctx, &rows, query+` ORDER BY d.id DESC LIMIT $4`, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("listing documents: %w", err)
	}

	return rows, nil
}

// OpenDocument returns a document like DocumentByID, together with a reader of the original
// content. The reader reads on demand under ctx. OpenDocument returns not_found if the document is
// not fetched yet. If the document is deleted while it is read, reading fails with not_found.
func (s *Store) OpenDocument(ctx context.Context, org, id string) (domain.Document, io.ReadSeekCloser, error) {
	row, err := s.documentRow(ctx, org, id)
	if err == nil && row.Hash == nil {
		err = pg.NotFound()
	}
	if err != nil {
		return domain.Document{}, nil, err
	}
	doc, err := row.Document()
	return doc, s.blobs.OpenBlob(ctx, org, row.Hash, row.Bytes), err
}

// GiveDocuments records that a run gets text from documents. It returns the documents that the run
// may read, ordered by id. It omits documents that are deleted or not ready. A concurrent deletion
// either was committed before this call, or finds the record of this call. If the worker no longer
// holds the run, GiveDocuments writes nothing and returns false.
func (s *Store) GiveDocuments(ctx context.Context, held lease.Held, documentIDs []string) (given []string, kept bool, err error) {
	if len(documentIDs) == 0 {
		return nil, true, nil
	}

	kept, err = lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) error {
		// The lock on the documents prevents their deletion until the record is committed.
		given = nil
		err := tx.SelectContext(ctx, &given, `SELECT id FROM documents WHERE id = ANY ($1) AND org_id = $2 AND status = 'ready'
			ORDER BY id FOR KEY SHARE`, pq.Array(documentIDs), held.OrganizationID)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO run_documents (run_id, org_id, document_id) SELECT $1, $2, d FROM unnest($3::text[]) d
			ORDER BY d ON CONFLICT DO NOTHING`, held.RunID, held.OrganizationID, pq.Array(given))
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("noting documents: %w", err)
	}

	if !kept {
		return nil, false, nil
	}

	return given, true, nil
}

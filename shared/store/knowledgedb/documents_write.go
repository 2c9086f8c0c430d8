package knowledgedb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/pg"
)

// ErrDocumentsFull means that documents were not stored because the organization's quota of
// documents or bytes is exceeded.
var ErrDocumentsFull = errors.New("as many documents are kept as may be")

// ErrDuplicateDocument means that another document already has the content or the URL.
type ErrDuplicateDocument struct { //nolint:errname // callers know it by this name
	ID string // the id of the other document
}

func (e ErrDuplicateDocument) Error() string { return "document " + e.ID + " has this content" }

// DocumentLimits are the quotas of an organization: the number of documents and the bytes of
// their originals. 0 means no limit.
type DocumentLimits struct {
	Documents int
	Bytes     int64
}

// NewDocument is a document to add: either its content, or the URL to fetch it from.
type NewDocument struct {
	ID        string
	Name      string
	MIMEType  string
	Metadata  map[string]string
	URL       string
	Content   *blobdb.Upload
	CreatedBy string
}

// QueuedDocument is an added document and the job to publish for it. Job is nil if there
// is nothing to do.
type QueuedDocument struct {
	Document domain.Document
	Job      *domain.Job
}

// queued converts the row. now says that the document has just been queued, so it gets a job.
func (row *DocumentRow) queued(now bool) (QueuedDocument, error) {
	doc, err := row.Document()
	out := QueuedDocument{Document: doc}
	if now {
		out.Job = row.job()
	}
	return out, err
}

// AddDocuments stores documents, all of them or none. Their contents must have been uploaded
// within the last hour. If the organization already has a document with the same content or
// URL, that document is returned and keeps its name. It is queued again if it had failed; a
// document with a URL is fetched again. AddDocuments returns ErrDocumentsFull if a quota is
// exceeded, and then removes the contents.
func (s *Store) AddDocuments(ctx context.Context, org string, docs []NewDocument, limits DocumentLimits) ([]QueuedDocument, error) {
	for i := range docs {
		if err := docs[i].check(); err != nil {
			return nil, fmt.Errorf("adding documents: %w", err)
		}
	}
	var out []QueuedDocument
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		out, err = addDocuments(ctx, tx, org, docs, limits)
		return err
	})
	return out, explain(ctx, s.blobs, "adding documents", org, contentsToKeep(docs), err)
}

// explain converts an error of storing documents to one for the caller. It removes contents
// that exceeded the quota.
func explain(ctx context.Context, blobs *blobdb.Store, what, org string, contents []blobdb.Blob, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDocumentsFull):
		left := blobs.DropUnlinked(ctx, org, pg.Column(contents, func(b *blobdb.Blob) []byte { return b.Hash })...)
		err = errors.Join(err, left)
	case errors.Is(err, blobdb.ErrBlobGone):
		again := apierr.Wrap(apierr.Unavailable, err, "the content was removed while it was kept; send it again")
		again.RetryAfter = time.Second
		return again
	}
	return fmt.Errorf("%s: %w", what, err)
}

// contentsToKeep returns the distinct contents of documents.
func contentsToKeep(docs []NewDocument) []blobdb.Blob {
	var out []blobdb.Blob
	for _, d := range docs {
		if d.Content != nil {
			out = append(out, d.Content.Blob())
		}
	}
	return blobdb.Distinct(out)
}

func (d *NewDocument) check() error {
	if (d.URL == "") == (d.Content == nil) {
		return errors.New("a document has either a content or a URL")
	}
	return nil
}

// source identifies the content or URL of a document. Two documents of an organization with the
// same source are the same.
func (d *NewDocument) source() string {
	if d.Content != nil {
		return "content " + string(d.Content.Hash)
	}
	return "url " + d.URL
}

func (row *DocumentRow) source() string {
	if row.URL == nil {
		return "content " + string(row.Hash)
	}
	return "url " + *row.URL
}

// addDocuments locks the organization's documents, so that concurrent additions neither exceed
// a quota nor add duplicates.
func addDocuments(ctx context.Context, tx *sqlx.Tx, org string, docs []NewDocument, limits DocumentLimits) ([]QueuedDocument, error) {
	if err := pg.AdvisoryLock(ctx, tx, "documents "+org); err != nil {
		return nil, err
	}
	there, err := sameDocuments(ctx, tx, org, docs)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(docs))
	now := map[string]bool{} // the documents that this call queues
	var fresh []NewDocument
	var again []DocumentRow
	for i := range docs {
		row, found := there[docs[i].source()]
		switch {
		case row.isGoing():
			return nil, errGoing()
		case !found:
			row.ID = docs[i].ID
			fresh = append(fresh, docs[i])
		case !now[row.ID] && row.isDueAgain():
			again = append(again, row)
		}
		now[row.ID] = now[row.ID] || !found || row.isDueAgain()
		there[docs[i].source()], ids[i] = row, row.ID
	}
	if err := insertDocuments(ctx, tx, org, fresh, limits); err != nil {
		return nil, err
	}
	if err := requeue(ctx, tx, org, again, true); err != nil {
		return nil, err
	}
	return readQueued(ctx, tx, org, ids, now)
}

// isDueAgain reports whether adding an existing document again must queue it.
func (row *DocumentRow) isDueAgain() bool {
	return row.Status == string(domain.DocumentFailed) || row.URL != nil && row.Status != "" && row.Status != string(domain.DocumentQueued)
}

// goingCode is the error code of a document that is being deleted.
const goingCode = "deleting"

func (row *DocumentRow) isGoing() bool {
	return row.ErrorCode.Valid && row.ErrorCode.String == goingCode
}

// errGoing is the error of changing a document that is being deleted.
func errGoing() error {
	return apierr.New(apierr.Conflict, "this document is being deleted; send it again once it is gone, and if it stays, delete it again")
}

// mayBecome returns an error if a document cannot get a content or URL. other is the document
// that has it already, if any.
func (row *DocumentRow) mayBecome(other DocumentRow) error {
	if row.isGoing() || other.isGoing() {
		return errGoing()
	}
	if other.ID != "" && other.ID != row.ID {
		return ErrDuplicateDocument{ID: other.ID}
	}
	return nil
}

// sameDocuments locks and returns the documents of an organization that have the content or URL
// of one of docs, by source.
func sameDocuments(ctx context.Context, tx *sqlx.Tx, org string, docs []NewDocument) (map[string]DocumentRow, error) {
	var urls []string
	for _, d := range docs {
		if d.Content == nil {
			urls = append(urls, d.URL)
		}
	}
	var rows []DocumentRow
	err := tx.SelectContext(ctx, &rows, `SELECT `+DocumentColumns+` FROM documents d WHERE d.org_id = $1
		AND (d.url IS NULL AND d.hash = ANY ($2) OR d.url = ANY ($3)) ORDER BY d.id FOR NO KEY UPDATE`,
		org, blobdb.Hashes(contentsToKeep(docs)), pq.Array(urls))
	out := make(map[string]DocumentRow, len(rows))
	for _, row := range rows {
		out[row.source()] = row
	}
	return out, err
}

// roomForDocuments returns ErrDocumentsFull if an organization has no room for that many more
// documents and bytes. The caller must hold the lock of the organization's documents.
func roomForDocuments(ctx context.Context, tx *sqlx.Tx, org string, limits DocumentLimits, documents int, bytes int64) error {
	if limits.Documents == 0 && limits.Bytes == 0 {
		return nil
	}
	now, err := countDocuments(ctx, tx, org)
	if err != nil {
		return err
	}
	if limits.Documents > 0 && documents > 0 && now.Documents+documents > limits.Documents ||
		limits.Bytes > 0 && bytes > 0 && now.Bytes+bytes > limits.Bytes {
		return ErrDocumentsFull
	}
	return nil
}

// DocumentUsage is how much of its quotas an organization uses.
type DocumentUsage struct {
	Documents int   `db:"documents"`
	Bytes     int64 `db:"bytes"` // of the originals, as sent
}

// DocumentUsage returns the number and the total size of an organization's documents.
func (s *Store) DocumentUsage(ctx context.Context, org string) (now DocumentUsage, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		now, err = countDocuments(ctx, tx, org)
		return err
	})
	if err != nil {
		return now, fmt.Errorf("counting documents: %w", err)
	}
	return now, nil
}

func countDocuments(ctx context.Context, tx *sqlx.Tx, org string) (now DocumentUsage, err error) {
	err = tx.GetContext(ctx, &now, `SELECT count(*) AS documents, coalesce(sum(bytes), 0)::bigint AS bytes FROM documents WHERE org_id = $1`, org)
	return now, err
}

func insertDocuments(ctx context.Context, tx *sqlx.Tx, org string, docs []NewDocument, limits DocumentLimits) error {
	if len(docs) == 0 {
		return nil
	}
	contents, size := contentsToKeep(docs), int64(0)
	for _, c := range contents {
		size += c.Bytes
	}
	if err := roomForDocuments(ctx, tx, org, limits, len(docs), size); err != nil {
		return err
	}
	if err := blobdb.HoldBlobs(ctx, tx, org, contents, nil); err != nil {
		return err
	}
	text := func(f func(*NewDocument) string) any { return pq.Array(pg.Column(docs, f)) }
	_, err := tx.ExecContext(ctx, `INSERT INTO documents (id, org_id, name, mime_type, metadata, url, hash, bytes, created_by)
		SELECT u.id, $1, u.name, u.mime_type, u.metadata::jsonb, nullif(u.url, ''), nullif(u.hash, ''), u.bytes, u.created_by
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bigint[], $9::text[])
		AS u (id, name, mime_type, metadata, url, hash, bytes, created_by)`, org,
		text(func(d *NewDocument) string { return d.ID }), text(func(d *NewDocument) string { return d.Name }),
		text(func(d *NewDocument) string { return d.MIMEType }), text(func(d *NewDocument) string { return metadataJSON(d.Metadata) }),
		text(func(d *NewDocument) string { return d.URL }),
		pq.ByteaArray(pg.Column(docs, func(d *NewDocument) []byte { return d.content().Hash })),
		pq.Array(pg.Column(docs, func(d *NewDocument) int64 { return d.content().Bytes })),
		text(func(d *NewDocument) string { return d.CreatedBy }))
	return err
}

// content returns the content, or an empty one if the document has a URL.
func (d *NewDocument) content() blobdb.Upload {
	if d.Content == nil {
		return blobdb.Upload{}
	}
	return *d.Content
}

func metadataJSON(metadata map[string]string) string {
	raw, err := json.Marshal(metadata)
	if err != nil || metadata == nil { // cannot happen with strings
		return "{}"
	}
	return string(raw)
}

// requeue queues documents again, whose rows are locked. A worker that is reading one can write
// nothing more, and the index entries are removed. If fetch is true, documents with a URL are
// fetched again too.
func requeue(ctx context.Context, tx *sqlx.Tx, org string, rows []DocumentRow, fetch bool) error {
	if len(rows) == 0 {
		return nil
	}
	ids := pg.Column(rows, func(row *DocumentRow) string { return row.ID })
	if err := removeIndexed(ctx, tx, org, ids); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE documents SET status = 'queued', error_code = NULL, error_message = NULL, pages = NULL, pages_done = 0,
		chunks = 0, language = '', title = '', notes = '[]', model = NULL, fence = fence + 1, attempts = 0, deaths = 0, lease_until = NULL,
		not_before = clock_timestamp(), deadline = NULL, dispatch_no = dispatch_no + 1,
		updated_at = clock_timestamp(), hash = CASE WHEN $3 AND url IS NOT NULL THEN NULL ELSE hash END,
		bytes = CASE WHEN $3 AND url IS NOT NULL THEN 0 ELSE bytes END
		WHERE id = ANY ($2) AND org_id = $1`, org, pq.Array(ids), fetch)
	if err != nil || !fetch {
		return err
	}
	var fetched [][]byte
	for _, row := range rows {
		if row.URL != nil && row.Hash != nil {
			fetched = append(fetched, row.Hash)
		}
	}
	return blobdb.RemoveUnlinkedBlobs(ctx, tx, blobdb.Contents(org, fetched))
}

// readQueued reads documents in the order of ids. Those in now get a job, each once.
func readQueued(ctx context.Context, tx *sqlx.Tx, org string, ids []string, now map[string]bool) ([]QueuedDocument, error) {
	var rows []DocumentRow
	err := tx.SelectContext(ctx, &rows, `SELECT `+DocumentColumns+` FROM documents d WHERE d.id = ANY ($2) AND d.org_id = $1`, org, pq.Array(ids))
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*DocumentRow, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	out := make([]QueuedDocument, len(ids))
	for i, id := range ids {
		row := byID[id]
		if row == nil {
			return nil, pg.NotFound()
		}
		if out[i], err = row.queued(now[id]); err != nil {
			return nil, err
		}
		delete(now, id)
	}
	return out, nil
}

// lockDocument locks and returns a document's row. It returns not_found if there is
// none of this id.
func lockDocument(ctx context.Context, tx *sqlx.Tx, org, id string) (DocumentRow, error) {
	var row DocumentRow
	err := tx.GetContext(ctx, &row, `SELECT `+DocumentColumns+` FROM documents d WHERE d.id = $1 AND d.org_id = $2 FOR NO KEY UPDATE`, id, org)
	if errors.Is(err, sql.ErrNoRows) {
		return row, pg.NotFound()
	}
	return row, err
}

// ReplaceDocument gives a document another content or URL and queues it again. Nothing of the
// old content is found any more. An empty name and nil metadata leave the old values. It
// returns [ErrDuplicateDocument] if another document has that content or URL.
func (s *Store) ReplaceDocument(ctx context.Context, org, id string, with NewDocument, limits DocumentLimits) (QueuedDocument, error) {
	if err := with.check(); err != nil {
		return QueuedDocument{}, fmt.Errorf("replacing document: %w", err)
	}
	var out QueuedDocument
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		out, err = replaceDocument(ctx, tx, org, id, &with, limits)
		return err
	})
	return out, explain(ctx, s.blobs, "replacing document", org, contentsToKeep([]NewDocument{with}), err)
}

func replaceDocument(ctx context.Context, tx *sqlx.Tx, org, id string, with *NewDocument, limits DocumentLimits) (QueuedDocument, error) {
	none := QueuedDocument{}
	if err := pg.AdvisoryLock(ctx, tx, "documents "+org); err != nil {
		return none, err
	}
	same, err := sameDocuments(ctx, tx, org, []NewDocument{*with})
	if err != nil {
		return none, err
	}
	row, err := lockDocument(ctx, tx, org, id)
	if err != nil {
		return none, err
	}
	if err := row.mayBecome(same[with.source()]); err != nil {
		return none, err
	}
	content := with.content()
	if err := roomForDocuments(ctx, tx, org, limits, 0, content.Bytes-row.Bytes); err != nil {
		return none, err
	}
	var old [][]byte
	if row.Hash != nil && !slices.Equal(row.Hash, content.Hash) {
		old = append(old, row.Hash)
	}
	if err := blobdb.HoldBlobs(ctx, tx, org, contentsToKeep([]NewDocument{*with}), old); err != nil {
		return none, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE documents SET name = coalesce(nullif($3, ''), name), mime_type = $4, hash = nullif($5::bytea, ''), bytes = $6,
		url = nullif($7, ''), metadata = CASE WHEN $9 THEN $8::jsonb ELSE metadata END WHERE id = $1 AND org_id = $2`,
		id, org, with.Name, with.MIMEType, content.Hash, content.Bytes, with.URL, metadataJSON(with.Metadata), with.Metadata != nil)
	if err != nil {
		return none, err
	}
	if err := requeue(ctx, tx, org, []DocumentRow{row}, false); err != nil {
		return none, err
	}
	if err := blobdb.RemoveUnlinkedBlobs(ctx, tx, blobdb.Contents(org, old)); err != nil {
		return none, err
	}
	out, err := readQueued(ctx, tx, org, []string{id}, map[string]bool{id: true})
	if err != nil {
		return none, err
	}
	return out[0], nil
}

// EditDocument changes the name or metadata of a document; nil leaves the old value. The name
// is indexed, so a document with a new name is read again, as by RetryDocument. A worker that
// is reading it loses it.
func (s *Store) EditDocument(ctx context.Context, org, id string, name *string, metadata *map[string]string) (QueuedDocument, error) {
	var out QueuedDocument
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		out, err = editDocument(ctx, tx, org, id, name, metadata)
		return err
	})
	if err != nil {
		return QueuedDocument{}, fmt.Errorf("changing document: %w", err)
	}
	return out, nil
}

func editDocument(ctx context.Context, tx *sqlx.Tx, org, id string, name *string, metadata *map[string]string) (QueuedDocument, error) {
	none := QueuedDocument{}
	row, err := lockDocument(ctx, tx, org, id)
	if err != nil {
		return none, err
	}
	now := name != nil && *name != row.Name && row.Status != string(domain.DocumentQueued)
	if now && row.isGoing() {
		return none, errGoing()
	}
	var labels *string
	if metadata != nil {
		raw := metadataJSON(*metadata)
		labels = &raw
	}
	_, err = tx.ExecContext(ctx, `UPDATE documents SET name = coalesce($3, name), metadata = coalesce($4::jsonb, metadata),
		updated_at = clock_timestamp() WHERE id = $1 AND org_id = $2`, id, org, name, labels)
	if err != nil {
		return none, err
	}
	if now {
		if err := requeue(ctx, tx, org, []DocumentRow{row}, false); err != nil {
			return none, err
		}
	}
	out, err := readQueued(ctx, tx, org, []string{id}, map[string]bool{id: now})
	if err != nil {
		return none, err
	}
	return out[0], nil
}

// RetryDocument queues a failed or ready document again. A ready document is not found by
// searches until it is read again. It does nothing if the document is queued or being read.
func (s *Store) RetryDocument(ctx context.Context, org, id string) (QueuedDocument, error) {
	var out QueuedDocument
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		row, err := lockDocument(ctx, tx, org, id)
		if err != nil {
			return err
		}
		if row.isGoing() {
			return errGoing()
		}
		now := row.Status == string(domain.DocumentFailed) || row.Status == string(domain.DocumentReady)
		if now {
			if err := requeue(ctx, tx, org, []DocumentRow{row}, false); err != nil {
				return err
			}
		}
		all, err := readQueued(ctx, tx, org, []string{id}, map[string]bool{id: now})
		if err != nil {
			return err
		}
		out = all[0]
		return nil
	})
	if err != nil {
		return QueuedDocument{}, fmt.Errorf("trying document again: %w", err)
	}
	return out, nil
}

package knowledgedb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
var ErrDocumentsFull = errors.New("document quota exceeded")

// ErrDuplicateDocument means that another document already has the content or the URL.
type ErrDuplicateDocument struct { //nolint:errname // callers know it by this name
	ID, Name string // of the other document
}

// Error names the other document.
func (e ErrDuplicateDocument) Error() string { return "document " + e.ID + " has this content" }

// DocumentLimits are an organization's quotas for the number of documents and for the total size of
// their originals, in bytes. 0 means no limit.
type DocumentLimits struct {
	Documents int
	Bytes     int64
}

// NewDocument is a document to add: either its content, or the URL to fetch it from. The caller
// generates the ID.
type NewDocument struct {
	ID       string
	Name     string
	MIMEType string
	Metadata map[string]string
	// URL is the address to fetch the content from; empty if Content is set.
	URL string
	// Content is the uploaded content; nil if URL is set.
	Content *blobdb.Upload
	// CreatedBy is the principal that added the document.
	CreatedBy string
}

// QueuedDocument is an added document and the job to publish for it. Job is nil if the document
// need not be processed. The job only wakes a worker: workers find queued documents in the
// database.
type QueuedDocument struct {
	Document domain.Document
	Job      *domain.Job
}

// queued converts the row to a QueuedDocument. If the argument now is true, the document has just
// been queued, and the result has a job.
func (row *DocumentRow) queued(now bool) (QueuedDocument, error) {
	doc, err := row.Document()
	out := QueuedDocument{Document: doc}
	if now {
		out.Job = row.job()
	}
	return out, err
}

// AddDocuments stores either all of the documents or none. Their contents must have been uploaded
// within the last hour. The results are in the order of docs.
//
// If the organization already has a document with the same content or URL, that document is
// returned and keeps its name. If the existing document had failed, it is queued again; if it has a
// URL, it is fetched again. If it is being deleted, AddDocuments returns conflict.
//
// AddDocuments returns ErrDocumentsFull if a quota is exceeded, and then removes the contents.
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
	return out, storeError(ctx, s.blobs, "adding documents", org, contentsToKeep(docs), err)
}

// storeError converts an error that occurred while documents were stored to an error for the
// caller. The argument what describes the action. storeError removes contents that exceeded the
// quota. If content was removed concurrently, storeError returns an unavailable error, so that the
// caller sends the content again.
func storeError(ctx context.Context, blobs *blobdb.Store, what, org string, contents []blobdb.Blob, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDocumentsFull):
		left := blobs.DropUnlinked(ctx, org, pg.Column(contents, func(b *blobdb.Blob) []byte { return b.Hash })...)
		err = errors.Join(err, left)
	// The upload was removed because it was not linked in time. The caller must send the content
	// again.
	case errors.Is(err, blobdb.ErrBlobGone):
		again := apierr.Wrap(apierr.Unavailable, err, "the content was removed concurrently; send it again")
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

// check returns an error unless the document has exactly one of content and URL.
func (d *NewDocument) check() error {
	if (d.URL == "") == (d.Content == nil) {
		return errors.New("a document must have either content or a URL")
	}
	return nil
}

// source identifies the content or URL of a document. Two documents of an organization with the
// same source count as one document.
func (d *NewDocument) source() string {
	if d.Content != nil {
		return "content " + string(d.Content.Hash)
	}
	return "url " + d.URL
}

// source identifies the content or URL of a stored document. The result has the same form as that
// of NewDocument.source.
func (row *DocumentRow) source() string {
	if row.URL == nil {
		return "content " + string(row.Hash)
	}
	return "url " + *row.URL
}

// addDocuments implements AddDocuments in one transaction. It locks the organization's documents,
// so that concurrent additions neither exceed a quota nor add duplicates.
func addDocuments(ctx context.Context, tx *sqlx.Tx, org string, docs []NewDocument, limits DocumentLimits) ([]QueuedDocument, error) {
	if err := pg.AdvisoryLock(ctx, tx, "documents "+org); err != nil {
		return nil, err
	}

	there, err := sameDocuments(ctx, tx, org, docs)
	if err != nil {
		return nil, err
	}

	// A document that was added before keeps its row and its id.
	// Documents in this call that have the same source share the row of the first such document.
	ids := make([]string, len(docs))
	now := map[string]bool{} // the documents that this call queues
	var fresh []NewDocument
	var again []DocumentRow
	for i := range docs {
		row, found := there[docs[i].source()]
		switch {
		// The existing document cannot be returned as the added one if it is being deleted.
		case row.isBeingDeleted():
			return nil, errBeingDeleted()
		// Later documents of this call with the same source share the row.
		case !found:
			row.ID = docs[i].ID
			fresh = append(fresh, docs[i])
		case !now[row.ID] && row.needsQueueing():
			again = append(again, row)
		}
		now[row.ID] = now[row.ID] || !found || row.needsQueueing()
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

// needsQueueing reports whether an existing document must be queued when it is added again.
func (row *DocumentRow) needsQueueing() bool {
	return row.Status == string(domain.DocumentFailed) || row.URL != nil && row.Status != "" && row.Status != string(domain.DocumentQueued)
}

// deletingCode is the error code of a document that is being deleted.
const deletingCode = "deleting"

// isBeingDeleted reports whether DeleteDocument has withdrawn the document but not yet removed it.
func (row *DocumentRow) isBeingDeleted() bool {
	return row.ErrorCode.Valid && row.ErrorCode.String == deletingCode
}

// errBeingDeleted is the error for a change to a document that is being deleted.
func errBeingDeleted() error {
	return apierr.New(apierr.Conflict, "the document is being deleted; send it again later, or delete it again if it remains")
}

// checkReplacement returns an error if a document must not get new content or a new URL. The
// argument other is the document, if any, that already has the content or URL.
func (row *DocumentRow) checkReplacement(other DocumentRow) error {
	if row.isBeingDeleted() || other.isBeingDeleted() {
		return errBeingDeleted()
	}
	if other.ID != "" && other.ID != row.ID {
		return ErrDuplicateDocument{ID: other.ID, Name: other.Name}
	}
	return nil
}

// sameDocuments locks and returns the documents of an organization that have the content or URL of
// one of docs. The keys of the result are the documents' sources.
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

// roomForDocuments returns ErrDocumentsFull if adding the given numbers of documents and bytes
// would exceed the organization's quotas. The caller must hold the lock of the organization's
// documents.
func roomForDocuments(ctx context.Context, tx *sqlx.Tx, org string, limits DocumentLimits, documents int, bytes int64) error {
	// Counting is not needed without a limit.
	if limits.Documents == 0 && limits.Bytes == 0 {
		return nil
	}

	// A change that adds no documents and no bytes is allowed even above the quota.
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

// DocumentUsage is the part of an organization's document quotas that is used.
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

// countDocuments implements DocumentUsage within a transaction.
func countDocuments(ctx context.Context, tx *sqlx.Tx, org string) (now DocumentUsage, err error) {
	err = tx.GetContext(ctx, &now, `SELECT count(*) AS documents, coalesce(sum(bytes), 0)::bigint AS bytes FROM documents WHERE org_id = $1`, org)
	return now, err
}

// insertDocuments inserts new documents. It returns ErrDocumentsFull if a quota is exceeded, and
// blobdb.ErrBlobGone if the content of a document was removed. The caller must hold the lock of the
// organization's documents.
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

	// The lock on the contents keeps the sweeper from removing them before they are linked.
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

// content returns the document's content, or an empty Upload if the document has a URL.
func (d *NewDocument) content() blobdb.Upload {
	if d.Content == nil {
		return blobdb.Upload{}
	}
	return *d.Content
}

// metadataJSON encodes metadata; nil becomes an empty object.
func metadataJSON(metadata map[string]string) string {
	raw, err := json.Marshal(metadata)
	if err != nil || metadata == nil { // cannot happen with strings
		return "{}"
	}
	return string(raw)
}

// requeue queues documents again. The caller must have locked their rows. A worker that is reading
// such a document can no longer write, and the document's index entries are removed. The counts of
// attempts and of lost workers start again at 0. If fetch is true, documents with a URL are fetched
// again.
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

	// The documents no longer link to the contents that were fetched earlier, so these can be
	// removed.
	var fetched [][]byte
	for _, row := range rows {
		if row.URL != nil && row.Hash != nil {
			fetched = append(fetched, row.Hash)
		}
	}

	return blobdb.RemoveUnlinkedBlobs(ctx, tx, blobdb.Contents(org, fetched))
}

// readQueued reads documents in the order of ids. The argument now is a set of ids of documents.
// Each of these documents gets one job, even if its id occurs repeatedly in ids.
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

		// A repeated id does not get a second job.
		delete(now, id)
	}

	return out, nil
}

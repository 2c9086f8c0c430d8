package knowledgedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/pg"
)

// lockDocument locks and returns a document's row, until the end of the transaction. It returns
// not_found if no document has this id.
func lockDocument(ctx context.Context, tx *sqlx.Tx, org, id string) (DocumentRow, error) {
	var row DocumentRow
	err := tx.GetContext(ctx, &row, `SELECT `+DocumentColumns+` FROM documents d WHERE d.id = $1 AND d.org_id = $2 FOR NO KEY UPDATE`, id, org)
	if errors.Is(err, sql.ErrNoRows) {
		return row, pg.NotFound()
	}
	return row, err
}

// ReplaceDocument gives a document new content or a new URL and queues the document again. Searches
// no longer find the old content. An empty name and nil metadata leave the old values unchanged.
// The caller publishes the job of the result.
//
// ReplaceDocument returns not_found if no document has this id, and conflict if the document is
// being deleted. It returns [ErrDuplicateDocument] if another document has the new content or URL,
// and ErrDocumentsFull if the quota of bytes would be exceeded.
func (s *Store) ReplaceDocument(ctx context.Context, org, id string, with NewDocument, limits DocumentLimits) (QueuedDocument, error) {
	if err := with.check(); err != nil {
		return QueuedDocument{}, fmt.Errorf("replacing document: %w", err)
	}
	var out QueuedDocument
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		out, err = replaceDocument(ctx, tx, org, id, &with, limits)
		return err
	})
	return out, storeError(ctx, s.blobs, "replacing document", org, contentsToKeep([]NewDocument{with}), err)
}

// replaceDocument implements ReplaceDocument in one transaction. It locks the organization's
// documents, then the documents with the same content, and then the document itself.
func replaceDocument(ctx context.Context, tx *sqlx.Tx, org, id string, with *NewDocument, limits DocumentLimits) (QueuedDocument, error) {
	none := QueuedDocument{}
	if err := pg.AdvisoryLock(ctx, tx, "documents "+org); err != nil {
		return none, err
	}

	// The rows with the same content are locked before the document itself, in the order of their
	// ids, so that two replacements cannot deadlock.
	same, err := sameDocuments(ctx, tx, org, []NewDocument{*with})
	if err != nil {
		return none, err
	}

	row, err := lockDocument(ctx, tx, org, id)
	if err != nil {
		return none, err
	}
	if err := row.checkReplacement(same[with.source()]); err != nil {
		return none, err
	}

	// A document with a URL has no bytes until it is fetched.
	content := with.content()
	if err := roomForDocuments(ctx, tx, org, limits, 0, content.Bytes-row.Bytes); err != nil {
		return none, err
	}

	// The old content is removed unless other documents or files link to it.
	var old [][]byte
	if row.Hash != nil && !slices.Equal(row.Hash, content.Hash) {
		old = append(old, row.Hash)
	}

	if err := blobdb.HoldBlobs(ctx, tx, org, contentsToKeep([]NewDocument{*with}), old); err != nil {
		return none, err
	}

	// A document with a URL has no hash until a worker fetches it.
	_, err = tx.ExecContext(ctx, `UPDATE documents SET name = coalesce(nullif($3, ''), name), mime_type = $4, hash = nullif($5::bytea, ''), bytes = $6,
		url = nullif($7, ''), metadata = CASE WHEN $9 THEN $8::jsonb ELSE metadata END WHERE id = $1 AND org_id = $2`,
		id, org, with.Name, with.MIMEType, content.Hash, content.Bytes, with.URL, metadataJSON(with.Metadata), with.Metadata != nil)
	if err != nil {
		return none, err
	}
	if err := requeue(ctx, tx, org, []DocumentRow{row}, false); err != nil {
		return none, err
	}

	// The row no longer links to the old content, so the content can be removed.
	if err := blobdb.RemoveUnlinkedBlobs(ctx, tx, blobdb.Contents(org, old)); err != nil {
		return none, err
	}

	out, err := readQueued(ctx, tx, org, []string{id}, map[string]bool{id: true})
	if err != nil {
		return none, err
	}
	return out[0], nil
}

// EditDocument changes the name or metadata of a document; nil leaves the old value unchanged. The
// name is indexed, so a document with a new name is read again, as after RetryDocument. If a worker
// is reading the document, the worker loses its lease. A change of the metadata takes effect
// immediately. The result has a job only if the document is read again.
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

// editDocument implements EditDocument in one transaction. A new name queues the document
// again.
func editDocument(ctx context.Context, tx *sqlx.Tx, org, id string, name *string, metadata *map[string]string) (QueuedDocument, error) {
	none := QueuedDocument{}
	row, err := lockDocument(ctx, tx, org, id)
	if err != nil {
		return none, err
	}

	// A document that is already queued will be indexed with its new name anyway.
	now := name != nil && *name != row.Name && row.Status != string(domain.DocumentQueued)
	if now && row.isBeingDeleted() {
		return none, errBeingDeleted()
	}

	var labels *string
	if metadata != nil {
		// An empty object removes all metadata, and nil leaves the metadata unchanged.
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

// RetryDocument queues a failed or ready document again. Searches do not find a ready document
// until it has been read again. RetryDocument does nothing if the document is queued or being read;
// the result then has no job. It returns not_found or conflict like ReplaceDocument.
func (s *Store) RetryDocument(ctx context.Context, org, id string) (QueuedDocument, error) {
	var out QueuedDocument
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		row, err := lockDocument(ctx, tx, org, id)
		if err != nil {
			return err
		}

		// A document that is being deleted must not be retried: that would undo the first step of
		// the deletion, which withdraws the document.
		if row.isBeingDeleted() {
			return errBeingDeleted()
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
		return QueuedDocument{}, fmt.Errorf("retrying document: %w", err)
	}

	return out, nil
}

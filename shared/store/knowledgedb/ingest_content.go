package knowledgedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jmoiron/sqlx"

	"parley/shared/store/blobdb"
	"parley/shared/store/pg"
)

// DocumentContent opens the content of a held document. The content is read on demand under ctx.
// The caller closes it. The result is false if the worker no longer holds the document or its
// content is not fetched yet.
func (s *Store) DocumentContent(ctx context.Context, held LeasedDocument) (io.ReadSeekCloser, bool, error) {
	var row struct {
		Hash  []byte `db:"hash"`
		Bytes int64  `db:"bytes"`
	}
	err := s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT hash, bytes FROM documents`+whereHeld+` AND hash IS NOT NULL`, heldArgs(held)...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading content of document: %w", err)
	}

	return s.blobs.OpenBlob(ctx, held.OrganizationID, row.Hash, row.Bytes), true, nil
}

// SetDocumentContent links a held document to the content fetched from its URL, in place of earlier
// content. An empty name or mimeType leaves the old value unchanged. SetDocumentContent returns
// ErrDocumentsFull if the organization's quota is exceeded, and false if the worker no longer holds
// the document. In both cases the new content is removed.
func (s *Store) SetDocumentContent(
	ctx context.Context, held LeasedDocument, content blobdb.Upload, name, mimeType string, limits DocumentLimits,
) (kept bool, err error) {
	err = s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		kept, err = linkContent(ctx, tx, held, content, name, mimeType, limits)
		return err
	})
	if err == nil && kept {
		return true, nil
	}

	if err == nil || errors.Is(err, ErrDocumentsFull) {
		err = errors.Join(err, s.blobs.DropUnlinked(ctx, held.OrganizationID, content.Hash))
	}

	if err != nil {
		return false, fmt.Errorf("setting content of document: %w", err)
	}

	return false, nil
}

// linkContent implements SetDocumentContent in one transaction. Like addDocuments, it locks the
// organization's documents before it locks the document's row.
func linkContent(
	ctx context.Context, tx *sqlx.Tx, held LeasedDocument, content blobdb.Upload, name, mimeType string, limits DocumentLimits,
) (bool, error) {
	if err := pg.AdvisoryLock(ctx, tx, "documents "+held.OrganizationID); err != nil {
		return false, err
	}

	var before struct {
		Hash  []byte `db:"hash"`
		Bytes int64  `db:"bytes"`
	}

	// The lock prevents a concurrent replacement of the document.
	err := tx.GetContext(ctx, &before, `SELECT hash, bytes FROM documents`+whereHeld+` FOR NO KEY UPDATE`, heldArgs(held)...)
	if err != nil {
		return false, pg.IgnoreNone(err)
	}

	if err := roomForDocuments(ctx, tx, held.OrganizationID, limits, 0, content.Bytes-before.Bytes); err != nil {
		return false, err
	}

	// The document no longer links to the content that was fetched earlier, so that content can be
	// removed.
	var others [][]byte
	if before.Hash != nil && !slices.Equal(before.Hash, content.Hash) {
		others = [][]byte{before.Hash}
	}

	if err := blobdb.HoldBlobs(ctx, tx, held.OrganizationID, []blobdb.Blob{content.Blob()}, others); err != nil {
		return false, err
	}

	_, err = tx.ExecContext(ctx, `UPDATE documents SET hash = $4, bytes = $5, name = coalesce(nullif($6, ''), name),
		mime_type = coalesce(nullif($7, ''), mime_type), updated_at = clock_timestamp()`+whereHeld,
		heldArgs(held, content.Hash, content.Bytes, name, mimeType)...)
	if err != nil {
		return false, err
	}

	return true, blobdb.RemoveUnlinkedBlobs(ctx, tx, blobdb.Contents(held.OrganizationID, others))
}

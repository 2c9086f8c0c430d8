package blobdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/store/pg"
)

const (
	// VisitorUploads is the maximum number of uploads that are kept for one visitor.
	VisitorUploads = 40
	// VisitorBytes is the maximum number of bytes of one visitor's uploads together.
	VisitorBytes = 100 << 20
	// visitorShare determines how much of an organization's quota the files of all visitors may
	// take: 1/visitorShare of it.
	visitorShare = 4
)

// VisitorFullError means that a visitor has too many uploads. Wait is the time until the oldest
// upload expires.
type VisitorFullError struct{ Wait time.Duration }

// Error returns a description for logs.
func (e *VisitorFullError) Error() string { return "too many uploads by a widget visitor" }

// CheckVisitor returns the error that AddUpload would return for an empty upload of a widget's
// visitor: VisitorFullError or ErrFilesFull. maximum is the organization's quota of bytes; 0 means
// no limit. Call it before storing the content, because content above the quota could not be kept.
func (s *Store) CheckVisitor(ctx context.Context, org, principal string, maximum int64) error {
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error { return reserveVisitor(ctx, tx, org, principal, 0, maximum) })
	if err != nil {
		return fmt.Errorf("checking the uploads of a visitor: %w", err)
	}
	return nil
}

// reserveVisitor returns VisitorFullError if a visitor has too many uploads, or would have too many
// with an upload of this size. It returns ErrFilesFull if the files of all visitors would exceed
// their share of maximum. Until the transaction ends, other uploads of the visitor wait.
func reserveVisitor(ctx context.Context, tx *sqlx.Tx, org, principal string, bytes, maximum int64) error {
	if err := pg.AdvisoryLock(ctx, tx, "visitor "+org+" "+principal); err != nil {
		return err
	}
	var kept struct {
		Count int     `db:"count"`
		Bytes int64   `db:"bytes"`
		Wait  float64 `db:"wait"`
	}
	err := tx.GetContext(ctx, &kept, `SELECT count(*) AS count, coalesce(sum(bytes), 0)::bigint AS bytes,
		coalesce(extract(epoch FROM min(sweep_after) - now()), 0)::float8 AS wait
		FROM files WHERE org_id = $1 AND principal = $2 AND run_id = '' AND sweep_after > now()`, org, principal)
	if err != nil {
		return err
	}
	if kept.Count >= VisitorUploads || kept.Bytes+bytes > VisitorBytes {
		return &VisitorFullError{Wait: time.Duration(kept.Wait * float64(time.Second))}
	}
	return reserveVisitorRows(ctx, tx, org, 1, bytes, maximum)
}

// reserveVisitorRows returns ErrFilesFull if the files of an organization's visitors exceed their
// share of maximum, or would exceed it with these additional rows and bytes.
func reserveVisitorRows(ctx context.Context, tx *sqlx.Tx, org string, rows int, bytes, maximum int64) error {
	if maximum == 0 {
		return nil
	}
	if err := pg.AdvisoryLock(ctx, tx, "blobs "+org); err != nil {
		return err
	}
	var cost int64
	err := tx.GetContext(ctx, &cost, `SELECT (SELECT coalesce(sum(d.bytes), 0)::bigint FROM (SELECT DISTINCT ON (hash) bytes FROM files
		WHERE org_id = $1 AND widget_agent IS NOT NULL AND hash IS NOT NULL ORDER BY hash) d)
		+ $2 * (SELECT count(*) FROM files WHERE org_id = $1 AND widget_agent IS NOT NULL)`, org, fileCost)
	if err != nil {
		return err
	}
	if cost+int64(rows)*fileCost+bytes > maximum/visitorShare {
		return ErrFilesFull
	}
	return nil
}

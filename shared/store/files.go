package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/id"
)

// NewFile is a file to keep.
type NewFile struct {
	Name     string
	MIMEType string
	Content  []byte
}

// keepTries bounds how often contents are written again that went just before they were linked to: each time somebody
// else's last link must have gone in the milliseconds in between, or the hour for writing them have passed.
const keepTries = 32

// KeepFiles keeps what a call has made and notes the names that it has removed, in place of what an earlier attempt
// at the same call has kept, all or nothing; what both have made has the same ids. It gives the files made, in their
// order. ErrFilesFull: the organization's contents would be more than most bytes together; 0 is no limit. false: the
// run was taken from the worker and nothing was written.
//
// Contents are written before the run's row is locked: its lease must not wait for them to be renewed. What is
// written in vain is removed at once, or swept when the worker dies.
func (s *Store) KeepFiles(ctx context.Context, held Held, callID string, made []NewFile, removed []string, most int64) (
	files []domain.File, kept bool, err error,
) {
	blobs := column(made, func(f *NewFile) blob { return newBlob(f.Content) })
	rows, err := fileRows(held, callID, made, blobs, removed)
	if err != nil {
		return nil, false, fmt.Errorf("keeping files: %w", err)
	}
	blobs = distinct(blobs)
	for range keepTries {
		if kept, err = s.writeAndLink(ctx, held, callID, blobs, rows, most); !errors.Is(err, errBlobGone) {
			break
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("keeping files: %w", err)
	}
	if !kept {
		return nil, false, nil
	}
	files = make([]domain.File, len(made))
	for i := range files {
		files[i] = rows[i].file()
	}
	return files, true, nil
}

// fileRow is what the database has of a file, without what all files of a call have in common where it is written.
type fileRow struct {
	ID        string      `db:"id"`
	RunID     string      `db:"run_id"`
	CallID    string      `db:"call_id"`
	Name      string      `db:"name"`
	MIMEType  string      `db:"mime_type"`
	Bytes     int64       `db:"bytes"`
	Hash      []byte      `db:"hash"` // nil: removed
	CreatedAt domain.Time `db:"created_at"`
}

const fileColumns = `id, run_id, call_id, name, mime_type, bytes, hash, created_at`

func (row *fileRow) file() domain.File {
	return domain.File{
		ID: row.ID, Name: row.Name, MIMEType: row.MIMEType, Bytes: row.Bytes, SHA256: hex.EncodeToString(row.Hash),
		RunID: row.RunID, CallID: row.CallID, CreatedAt: row.CreatedAt,
	}
}

// fileRows gives the rows of a call: those of made first, in their order, which is that of their contents.
func fileRows(held Held, callID string, made []NewFile, contents []blob, removed []string) ([]fileRow, error) {
	rows := make([]fileRow, 0, len(made)+len(removed))
	for i, f := range made {
		rows = append(rows, fileRow{Name: f.Name, MIMEType: f.MIMEType, Bytes: int64(len(f.Content)), Hash: contents[i].hash})
	}
	for _, name := range removed {
		rows = append(rows, fileRow{Name: name})
	}
	names := make(map[string]bool, len(rows))
	for i := range rows {
		row := &rows[i]
		if names[row.Name] {
			return nil, fmt.Errorf("%q is there twice", row.Name)
		}
		names[row.Name] = true
		row.RunID, row.CallID = held.RunID, callID
		row.ID = id.Derived(id.File, held.RunID, callID+"\x00"+row.Name+"\x00"+hex.EncodeToString(row.Hash))
	}
	return rows, nil
}

// writeAndLink is one try at keeping a call's files; errBlobGone asks for another.
func (s *Store) writeAndLink(ctx context.Context, held Held, callID string, blobs []blob, rows []fileRow, most int64) (bool, error) {
	if len(blobs) > 0 {
		kept, err := s.underFence(ctx, held, func(tx *sqlx.Tx, _ time.Time) error {
			return reserveBlobs(ctx, tx, held.OrganizationID, blobs, most)
		})
		if err != nil || !kept {
			return false, err
		}
	}
	for _, b := range blobs {
		if err := s.fillBlob(ctx, held.OrganizationID, b); err != nil {
			return false, err
		}
	}
	kept, err := s.underFence(ctx, held, func(tx *sqlx.Tx, _ time.Time) error {
		return linkFiles(ctx, tx, held, callID, blobs, rows)
	})
	if err != nil || kept || len(blobs) == 0 {
		return kept, err
	}
	return false, s.within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		return removeUnlinkedBlobs(ctx, tx, textsOf(held.OrganizationID, column(blobs, func(b *blob) []byte { return b.hash })))
	})
}

func textsOf(org string, hashes [][]byte) []textOf {
	return column(hashes, func(h *[]byte) textOf { return textOf{OrganizationID: org, Hash: *h} })
}

// linkFiles puts a call's files in place of those that it had. The same call made twice at once leaves those of one.
func linkFiles(ctx context.Context, tx *sqlx.Tx, held Held, callID string, blobs []blob, rows []fileRow) error {
	if err := queueFor(ctx, tx, "files "+held.RunID+" "+callID); err != nil {
		return err
	}
	var before, others [][]byte
	err := tx.SelectContext(ctx, &before, `DELETE FROM files WHERE run_id = $1 AND call_id = $2 AND org_id = $3 RETURNING hash`,
		held.RunID, callID, held.OrganizationID)
	if err != nil {
		return err
	}
	for _, hash := range before {
		if hash != nil && !holds(blobs, hash) {
			others = append(others, hash)
		}
	}
	if err := holdBlobs(ctx, tx, held.OrganizationID, blobs, others); err != nil {
		return err
	}
	if err := insertFiles(ctx, tx, held, callID, rows); err != nil {
		return err
	}
	return removeUnlinkedBlobs(ctx, tx, textsOf(held.OrganizationID, others))
}

// insertFiles enters a call's files in the order of their names, and says when in rows.
func insertFiles(ctx context.Context, tx *sqlx.Tx, held Held, callID string, rows []fileRow) error {
	var made []struct {
		ID        string      `db:"id"`
		CreatedAt domain.Time `db:"created_at"`
	}
	err := tx.SelectContext(ctx, &made, `INSERT INTO files (id, org_id, run_id, call_id, session_ref, name, mime_type, bytes, hash)
		SELECT u.id, o.org_id, o.run_id, $3, o.session_ref, u.name, u.mime_type, u.bytes, nullif(u.hash, '')
		FROM open_runs o, unnest($4::text[], $5::text[], $6::text[], $7::bigint[], $8::bytea[]) AS u (id, name, mime_type, bytes, hash)
		WHERE o.run_id = $1 AND o.org_id = $2 ORDER BY u.name COLLATE "C" RETURNING id, created_at`,
		held.RunID, held.OrganizationID, callID,
		pq.Array(column(rows, func(r *fileRow) string { return r.ID })),
		pq.Array(column(rows, func(r *fileRow) string { return r.Name })),
		pq.Array(column(rows, func(r *fileRow) string { return r.MIMEType })),
		pq.Array(column(rows, func(r *fileRow) int64 { return r.Bytes })),
		pq.ByteaArray(column(rows, func(r *fileRow) []byte { return r.Hash })))
	if err != nil {
		return err
	}
	at := make(map[string]domain.Time, len(made))
	for _, m := range made {
		at[m.ID] = m.CreatedAt
	}
	for i := range rows {
		rows[i].CreatedAt = at[rows[i].ID]
	}
	return nil
}

// SessionFiles gives the newest file of each name that the calls of a run's session have left, but for those of this call,
// in the order of their names: what the call finds, however often it is made. false: the run was taken from the worker.
//
// Each name's newest file is looked up by itself, for a folder is small and the calls that wrote to it may be many. Without
// statistics the planner thinks the opposite, and would read and sort all of them for each name.
func (s *Store) SessionFiles(ctx context.Context, held Held, callID string) ([]domain.File, bool, error) {
	const newest = `SELECT f.* FROM files f WHERE f.session_ref = s.ref AND f.org_id = $2 AND (f.run_id, f.call_id) <> ($1, $3)`
	var rows []fileRow
	kept, err := s.underFence(ctx, held, func(tx *sqlx.Tx, _ time.Time) error {
		_, err := tx.ExecContext(ctx, `SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)`)
		if err != nil {
			return err
		}
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, `WITH RECURSIVE newest AS (
			  SELECT s.ref, n.* FROM (SELECT o.session_ref AS ref FROM open_runs o WHERE o.run_id = $1 AND o.org_id = $2) s
			  CROSS JOIN LATERAL (`+newest+` ORDER BY f.name, f.seq DESC LIMIT 1) n
			  UNION ALL
			  SELECT s.ref, n.* FROM newest s CROSS JOIN LATERAL (`+newest+` AND f.name > s.name ORDER BY f.name, f.seq DESC LIMIT 1) n
			) SELECT `+fileColumns+` FROM newest WHERE hash IS NOT NULL ORDER BY name`, held.RunID, held.OrganizationID, callID)
	})
	if err != nil {
		return nil, false, fmt.Errorf("reading session's files: %w", err)
	}
	return column(rows, (*fileRow).file), kept, nil
}

// FileByID gives a file of an organization's runs; not_found when there is none of this id. Whether its run is still to be
// seen is for the caller to ask.
func (s *Store) FileByID(ctx context.Context, org, id string) (domain.File, error) {
	row, err := s.fileRow(ctx, org, id)
	return row.file(), err
}

func (s *Store) fileRow(ctx context.Context, org, id string) (fileRow, error) {
	var row fileRow
	err := s.within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT `+fileColumns+` FROM files WHERE id = $1 AND org_id = $2 AND hash IS NOT NULL`, id, org)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return fileRow{}, notFound()
	}
	if err != nil {
		return fileRow{}, fmt.Errorf("reading file: %w", err)
	}
	return row, nil
}

// OpenFile is FileByID with the content, which is read as it is asked for, under ctx. When the file goes meanwhile, because
// its session is erased, reading fails with not_found.
func (s *Store) OpenFile(ctx context.Context, org, id string) (domain.File, io.ReadSeekCloser, error) {
	row, err := s.fileRow(ctx, org, id)
	if err != nil {
		return domain.File{}, nil, err
	}
	return row.file(), s.openBlob(ctx, org, row.Hash, row.Bytes), nil
}

// forgetFiles removes what runs have made; a content goes with the last link to it.
func forgetFiles(ctx context.Context, tx *sqlx.Tx, runs []string) error {
	var gone, contents []textOf
	if err := tx.SelectContext(ctx, &gone, `DELETE FROM files WHERE run_id = ANY ($1) RETURNING org_id, hash`, pq.Array(runs)); err != nil {
		return err
	}
	for _, f := range gone {
		if f.Hash != nil { // a name that was removed
			contents = append(contents, f)
		}
	}
	return removeUnlinkedBlobs(ctx, tx, contents)
}

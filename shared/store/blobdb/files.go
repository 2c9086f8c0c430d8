package blobdb

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
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

// ErrFilesFull says that files were not kept because their organization may not keep that much, or their session that many.
var ErrFilesFull = errors.New("file quota of the session or organization exceeded")

const (
	// fileCost is what a file counts for beside the bytes of its content: the database has about as much of it, also when
	// it is empty, another's content, or a name that was removed.
	fileCost = 4096
	// maxNames is how many names a session's folder has.
	maxNames = 1000
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
// order. ErrFilesFull: the organization's files would cost more than most bytes together, 0 is no limit, or the session
// would have too many names. false: the run was taken from the worker and nothing was written.
//
// Large contents are written while the run's row is not locked: its lease must not wait for them to be renewed. What
// is written in vain is removed at once, or swept when the worker dies.
func (s *Store) KeepFiles(ctx context.Context, held lease.Held, callID string, made []NewFile, removed []string, maximum int64) (
	files []domain.File, kept bool, err error,
) {
	blobs := pg.Column(made, func(f *NewFile) Blob { return newBlob(f.Content) })
	rows, err := fileRows(held, callID, made, blobs, removed)
	if err != nil {
		return nil, false, fmt.Errorf("keeping files: %w", err)
	}
	blobs = Distinct(blobs)
	for range keepTries {
		if kept, err = s.writeAndLink(ctx, held, callID, blobs, rows, maximum); !errors.Is(err, ErrBlobGone) {
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
func fileRows(held lease.Held, callID string, made []NewFile, contents []Blob, removed []string) ([]fileRow, error) {
	rows := make([]fileRow, 0, len(made)+len(removed))
	for i, f := range made {
		rows = append(rows, fileRow{Name: f.Name, MIMEType: f.MIMEType, Bytes: int64(len(f.Content)), Hash: contents[i].Hash})
	}
	for _, name := range removed {
		rows = append(rows, fileRow{Name: name})
	}
	names := make(map[string]bool, len(rows))
	for i := range rows {
		row := &rows[i]
		if names[row.Name] {
			return nil, fmt.Errorf("%q occurs twice", row.Name)
		}
		names[row.Name] = true
		row.RunID, row.CallID = held.RunID, callID
		row.ID = id.Derived(id.File, held.RunID, callID+"\x00"+row.Name+"\x00"+hex.EncodeToString(row.Hash))
	}
	return rows, nil
}

// writeAndLink is one try at keeping a call's files; errBlobGone asks for another.
func (s *Store) writeAndLink(ctx context.Context, held lease.Held, callID string, blobs []Blob, rows []fileRow, maximum int64) (bool, error) {
	parts := batches(blobs)
	if len(rows) > 0 {
		kept, err := lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) error {
			err := enterFiles(ctx, tx, held, callID, blobs, rows, maximum)
			if err == nil && len(parts) == 1 {
				err = s.addChunks(ctx, tx, held.OrganizationID, parts[0])
			}
			return err
		})
		if err != nil || !kept {
			return false, err
		}
	}
	if len(parts) > 1 {
		if err := s.fillBlobs(ctx, held.OrganizationID, parts); err != nil {
			return false, err
		}
	}
	kept, err := lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) error {
		return linkFiles(ctx, tx, held, callID, blobs, rows)
	})
	if err != nil || kept || len(blobs) == 0 {
		return kept, err
	}
	return false, s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		return RemoveUnlinkedBlobs(ctx, tx, Contents(held.OrganizationID, pg.Column(blobs, func(b *Blob) []byte { return b.Hash })))
	})
}

// Contents names an organization's contents by their hashes.
func Contents(org string, hashes [][]byte) []Content {
	return pg.Column(hashes, func(h *[]byte) Content { return Content{OrganizationID: org, Hash: *h} })
}

// enterFiles reserves the contents of a call's files, or fails with ErrFilesFull. Whoever adds to an organization's contents
// waits for each other; files count once they are linked to them, so calls at once may keep some more. What is a document's, too,
// counts for the documents.
func enterFiles(ctx context.Context, tx *sqlx.Tx, held lease.Held, callID string, blobs []Blob, rows []fileRow, maximum int64) error {
	if maximum > 0 {
		if err := pg.AdvisoryLock(ctx, tx, "blobs "+held.OrganizationID); err != nil {
			return err
		}
	}
	if err := checkNames(ctx, tx, held, callID, rows); err != nil {
		return err
	}
	added, err := reserveBlobs(ctx, tx, held.OrganizationID, blobs)
	if err != nil || maximum == 0 {
		return err
	}
	var now struct {
		Cost int64 `db:"cost"`
		Own  int   `db:"own"`
	}
	err = tx.GetContext(ctx, &now, `SELECT (SELECT coalesce(sum(bytes), 0)::bigint FROM blobs WHERE org_id = $1)
		- (SELECT coalesce(sum(d.bytes), 0)::bigint FROM (SELECT DISTINCT ON (hash) bytes FROM documents
		  WHERE org_id = $1 AND hash IS NOT NULL ORDER BY hash) d)
		+ $4 * (SELECT count(*) FROM files WHERE org_id = $1) AS cost,
		(SELECT count(*) FROM files WHERE run_id = $2 AND call_id = $3 AND org_id = $1) AS own`, held.OrganizationID, held.RunID, callID, fileCost)
	if err != nil {
		return err
	}
	more := len(rows) - now.Own // those go when these come
	if (added || more > 0) && now.Cost+int64(more)*fileCost > maximum {
		return ErrFilesFull
	}
	return nil
}

// checkNames fails with ErrFilesFull when a call would add names to a session that then has too many.
func checkNames(ctx context.Context, tx *sqlx.Tx, held lease.Held, callID string, rows []fileRow) error {
	found, err := liveFiles(ctx, tx, held, callID)
	if err != nil {
		return err
	}
	names := make(map[string]bool, len(found)+len(rows))
	for _, f := range found {
		names[f.Name] = true
	}
	before := len(names)
	for _, r := range rows {
		if r.Hash != nil {
			names[r.Name] = true
		}
	}
	added := len(names) > before
	for _, r := range rows {
		if r.Hash == nil {
			delete(names, r.Name)
		}
	}
	if added && len(names) > maxNames {
		return ErrFilesFull
	}
	return nil
}

// linkFiles puts a call's files in place of those that it had. The same call made twice at once leaves those of one.
func linkFiles(ctx context.Context, tx *sqlx.Tx, held lease.Held, callID string, blobs []Blob, rows []fileRow) error {
	if err := pg.AdvisoryLock(ctx, tx, "files "+held.RunID+" "+callID); err != nil {
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
	if err := HoldBlobs(ctx, tx, held.OrganizationID, blobs, others); err != nil {
		return err
	}
	if err := insertFiles(ctx, tx, held, callID, rows); err != nil {
		return err
	}
	return RemoveUnlinkedBlobs(ctx, tx, Contents(held.OrganizationID, others))
}

// insertFiles enters a call's files in the order of their names, and says when in rows.
func insertFiles(ctx context.Context, tx *sqlx.Tx, held lease.Held, callID string, rows []fileRow) error {
	var made []struct {
		ID        string      `db:"id"`
		CreatedAt domain.Time `db:"created_at"`
	}
	err := tx.SelectContext(ctx, &made, `INSERT INTO files (id, org_id, run_id, call_id, session_ref, name, mime_type, bytes, hash)
		SELECT u.id, o.org_id, o.run_id, $3, o.session_ref, u.name, u.mime_type, u.bytes, nullif(u.hash, '')
		FROM open_runs o, unnest($4::text[], $5::text[], $6::text[], $7::bigint[], $8::bytea[]) AS u (id, name, mime_type, bytes, hash)
		WHERE o.run_id = $1 AND o.org_id = $2 ORDER BY u.name COLLATE "C" RETURNING id, created_at`,
		held.RunID, held.OrganizationID, callID,
		pq.Array(pg.Column(rows, func(r *fileRow) string { return r.ID })),
		pq.Array(pg.Column(rows, func(r *fileRow) string { return r.Name })),
		pq.Array(pg.Column(rows, func(r *fileRow) string { return r.MIMEType })),
		pq.Array(pg.Column(rows, func(r *fileRow) int64 { return r.Bytes })),
		pq.ByteaArray(pg.Column(rows, func(r *fileRow) []byte { return r.Hash })))
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
// in the order of their names: what the call finds, however often it is made. Of more than a session may have the newest
// are given. false: the run was taken from the worker.
func (s *Store) SessionFiles(ctx context.Context, held lease.Held, callID string) ([]domain.File, bool, error) {
	var rows []fileRow
	kept, err := lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) (err error) {
		rows, err = liveFiles(ctx, tx, held, callID)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("reading session's files: %w", err)
	}
	return pg.Column(rows, (*fileRow).file), kept, nil
}

// liveFiles is what SessionFiles gives.
//
// Each name's newest file is looked up by itself, for a folder is small and the calls that wrote to it may be many. Without
// statistics the planner thinks the opposite, and would read and sort all of them for each name.
func liveFiles(ctx context.Context, tx *sqlx.Tx, held lease.Held, callID string) (rows []fileRow, err error) {
	const newest = `SELECT f.* FROM files f WHERE f.session_ref = s.ref AND f.org_id = $2 AND (f.run_id, f.call_id) <> ($1, $3)`
	if _, err := tx.ExecContext(ctx, `SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)`); err != nil {
		return nil, err
	}
	err = tx.SelectContext(ctx, &rows, `WITH RECURSIVE newest AS (
		  SELECT s.ref, n.* FROM (SELECT o.session_ref AS ref FROM open_runs o WHERE o.run_id = $1 AND o.org_id = $2) s
		  CROSS JOIN LATERAL (`+newest+` ORDER BY f.name, f.seq DESC LIMIT 1) n
		  UNION ALL
		  SELECT s.ref, n.* FROM newest s CROSS JOIN LATERAL (`+newest+` AND f.name > s.name ORDER BY f.name, f.seq DESC LIMIT 1) n
		) SELECT `+fileColumns+` FROM (SELECT * FROM newest WHERE hash IS NOT NULL ORDER BY seq DESC LIMIT $4) n ORDER BY name`,
		held.RunID, held.OrganizationID, callID, maxNames)
	if err == nil { // the transaction may go on with other statements
		_, err = tx.ExecContext(ctx, `SELECT set_config('enable_sort', 'on', true), set_config('enable_bitmapscan', 'on', true)`)
	}
	return rows, err
}

// OpenFile gives a file of an organization's runs, with the content, which is read as it is asked for, under ctx; not_found when
// there is none of this id. Whether its run is still to be seen is for the caller to ask. When the file goes meanwhile, because
// its session is erased, reading fails with not_found.
func (s *Store) OpenFile(ctx context.Context, org, id string) (domain.File, io.ReadSeekCloser, error) {
	var row fileRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT `+fileColumns+` FROM files WHERE id = $1 AND org_id = $2 AND hash IS NOT NULL`, id, org)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return domain.File{}, nil, pg.NotFound()
	}
	if err != nil {
		return domain.File{}, nil, fmt.Errorf("reading file: %w", err)
	}
	return row.file(), s.OpenBlob(ctx, org, row.Hash, row.Bytes), nil
}

// SmallFile is how many bytes a file may have for FileContents: those of a chunk.
const SmallFile = sealdb.ChunkSize

// FileContents gives the contents of an organization's small files in their order, in one statement; not_found when one is
// not there, or is not small.
func (s *Store) FileContents(ctx context.Context, org string, ids []string) ([][]byte, error) {
	var rows []struct {
		Hash   []byte `db:"hash"`
		Sealed int    `db:"sealed"`
		Data   []byte `db:"data"`
	}
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, `SELECT f.hash, coalesce(c.sealed, 0) AS sealed, coalesce(c.data, '') AS data
			FROM unnest($2::text[]) WITH ORDINALITY AS u (id, n)
			JOIN files f ON f.id = u.id AND f.org_id = $1 AND f.hash IS NOT NULL
			LEFT JOIN blob_chunks c ON c.org_id = f.org_id AND c.hash = f.hash AND c.n = 0
			WHERE length(coalesce(c.data, '')) = f.bytes + coalesce(c.sealed, 0) * ((f.bytes + $3::int - 1) / $3::int) ORDER BY u.n`, org, pq.Array(ids), sealdb.PieceSize)
	})
	if err != nil {
		return nil, fmt.Errorf("reading contents: %w", err)
	}
	if len(rows) != len(ids) {
		return nil, pg.NotFound()
	}
	out := make([][]byte, len(rows))
	for i, row := range rows {
		if out[i], err = s.seals.Unseal(org, sealdb.Chunk{Hash: row.Hash, N: 0, Data: row.Data}, row.Sealed); err != nil {
			return nil, fmt.Errorf("reading contents: %w", err)
		}
	}
	return out, nil
}

// forgetFiles removes what runs have made; a content goes with the last link to it.
func forgetFiles(ctx context.Context, tx *sqlx.Tx, runs []string) error {
	var gone, contents []Content
	if err := tx.SelectContext(ctx, &gone, `DELETE FROM files WHERE run_id = ANY ($1) RETURNING org_id, hash`, pq.Array(runs)); err != nil {
		return err
	}
	for _, f := range gone {
		if f.Hash != nil { // a name that was removed
			contents = append(contents, f)
		}
	}
	return RemoveUnlinkedBlobs(ctx, tx, contents)
}

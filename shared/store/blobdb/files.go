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

// ErrFilesFull means that files were not stored because the organization's quota of bytes or
// the session's quota of names is exceeded.
var ErrFilesFull = errors.New("file quota of the session or organization exceeded")

const (
	// fileCost is the number of bytes that is added to the size of a file's content when the file
	// is counted against the quota. It is roughly the size of the file's database rows. It also
	// applies to empty files, shared blobs and removed names.
	fileCost = 4096
	// maxNames is the maximum number of names in a session's folder.
	maxNames = 1000
)

// NewFile is a file to store. Its content is in memory.
type NewFile struct {
	Name     string
	MIMEType string
	Content  []byte
}

// maxKeepTries is the maximum number of attempts to store blobs and link to them. An attempt fails
// if the last existing link to a blob is removed just before the new link is made. It also fails if
// writing takes longer than the hour for which blobs are reserved.
const maxKeepTries = 32

// KeepFiles stores the files that a tool call created and records the names that it removed, in one
// step. The files replace those of an earlier attempt at the same call; a file that both attempts
// created keeps its id. KeepFiles returns the files in the order of the argument made.
//
// It returns ErrFilesFull if the organization's files would exceed maximum bytes (0: no limit), or
// if the session would have too many names. If the worker no longer holds the run, KeepFiles writes
// nothing and kept is false.
//
// Large blobs are written while the run's row is not locked, so that renewing its lease does not
// wait for them. If the blobs cannot be linked in the end, they are removed immediately, or by the
// sweeper if the worker dies.
func (s *Store) KeepFiles(ctx context.Context, held lease.Held, callID string, made []NewFile, removed []string, maximum int64) (
	files []domain.File, kept bool, err error,
) {
	blobs := pg.Column(made, func(f *NewFile) Blob { return newBlob(f.Content) })
	rows, err := fileRows(held, callID, made, blobs, removed)
	if err != nil {
		return nil, false, fmt.Errorf("keeping files: %w", err)
	}

	blobs = Distinct(blobs)
	for range maxKeepTries {
		// The loop makes another attempt only if a blob was removed before it was linked.
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

// fileRow is a file's row, without the columns that are the same for all files of a call.
type fileRow struct {
	ID        string      `db:"id"`
	RunID     string      `db:"run_id"`
	CallID    string      `db:"call_id"`
	Name      string      `db:"name"`
	MIMEType  string      `db:"mime_type"`
	Bytes     int64       `db:"bytes"`
	Hash      []byte      `db:"hash"` // nil: the name was removed
	CreatedAt domain.Time `db:"created_at"`
}

// fileColumns lists the columns of a fileRow, in the table files.
const fileColumns = `id, run_id, call_id, name, mime_type, bytes, hash, created_at`

// file converts the row of a file that was not removed.
func (row *fileRow) file() domain.File {
	return domain.File{
		ID: row.ID, Name: row.Name, MIMEType: row.MIMEType, Bytes: row.Bytes, SHA256: hex.EncodeToString(row.Hash),
		RunID: row.RunID, CallID: row.CallID, CreatedAt: row.CreatedAt,
	}
}

// fileRows returns the rows of a call: first one for each file in the argument made, with the hash
// of its content, then one for each removed name.
func fileRows(held lease.Held, callID string, made []NewFile, contents []Blob, removed []string) ([]fileRow, error) {
	rows := make([]fileRow, 0, len(made)+len(removed))
	for i, f := range made {
		rows = append(rows, fileRow{Name: f.Name, MIMEType: f.MIMEType, Bytes: int64(len(f.Content)), Hash: contents[i].Hash})
	}

	for _, name := range removed {
		// A row without a hash records that the name was removed: it hides the files with this name
		// that earlier calls created.
		rows = append(rows, fileRow{Name: name})
	}

	names := make(map[string]bool, len(rows))
	for i := range rows {
		row := &rows[i]
		if names[row.Name] {
			return nil, fmt.Errorf("%q occurs twice", row.Name)
		}

		// The id of a file depends only on the call, the name and the content, so a repeated call
		// creates the same ids.
		names[row.Name] = true
		row.RunID, row.CallID = held.RunID, callID
		row.ID = id.Derived(id.File, held.RunID, callID+"\x00"+row.Name+"\x00"+hex.EncodeToString(row.Hash))
	}

	return rows, nil
}

// writeAndLink tries once to store a call's files: it reserves the contents, writes them, and links
// the files to them. It returns false if the worker no longer holds the run. After ErrBlobGone the
// caller must try again.
func (s *Store) writeAndLink(
	ctx context.Context, held lease.Held, callID string, blobs []Blob, rows []fileRow, maximum int64,
) (bool, error) {
	// Contents that fit into one batch are written together with their reservation, which saves a
	// transaction.
	parts := batches(blobs)
	if len(rows) > 0 {
		kept, err := lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) error {
			err := reserveFiles(ctx, tx, held, callID, blobs, rows, maximum)
			if err == nil && len(parts) == 1 {
				err = s.addChunks(ctx, tx, held.OrganizationID, parts[0])
			}
			return err
		})
		if err != nil || !kept {
			return false, err
		}
	}

	// Large contents are written while the run is not locked, so that the renewal of the run's
	// lease does not wait.
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

	// The worker lost the run while the blobs were written, so nothing links to them.
	return false, s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		return RemoveUnlinkedBlobs(ctx, tx, Contents(held.OrganizationID, pg.Column(blobs, func(b *Blob) []byte { return b.Hash })))
	})
}

// Contents returns references to an organization's blobs with these hashes.
func Contents(org string, hashes [][]byte) []Content {
	return pg.Column(hashes, func(h *[]byte) Content { return Content{OrganizationID: org, Hash: *h} })
}

// reserveFiles reserves the contents of a call's files. It returns ErrFilesFull if the quota is
// exceeded. It locks the organization's quota, so that concurrent calls count one after the other.
// A file counts only after it is linked, so concurrent calls may exceed the quota slightly. A blob
// that is also used by a document counts as part of the document.
func reserveFiles(ctx context.Context, tx *sqlx.Tx, held lease.Held, callID string, blobs []Blob, rows []fileRow, maximum int64) error {
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

	// The sum of the blobs' sizes counts each content once, even if several files have the same
	// content.
	var now struct {
		Cost int64 `db:"cost"`
		Own  int   `db:"own"`
	}
	err = tx.GetContext(ctx, &now, `SELECT (`+filesCost+`) AS cost,
		(SELECT count(*) FROM files WHERE run_id = $3 AND call_id = $4 AND org_id = $1) AS own`, held.OrganizationID, fileCost, held.RunID, callID)
	if err != nil {
		return err
	}

	more := len(rows) - now.Own // the call's earlier files do not count, because the new files replace them
	if (added || more > 0) && now.Cost+int64(more)*fileCost > maximum {
		return ErrFilesFull
	}

	return nil
}

// checkNames returns ErrFilesFull if the call adds names to a session that would then have more
// than maxNames. A call that adds no name is always allowed.
func checkNames(ctx context.Context, tx *sqlx.Tx, held lease.Held, callID string, rows []fileRow) error {
	found, err := liveFiles(ctx, tx, held, callID)
	if err != nil {
		return err
	}

	// A call may add, replace and remove names. It fails only if it adds a name and the session then
	// has too many names.
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

// linkFiles replaces the files of a call. If the same call runs twice concurrently, the files of
// one execution remain.
func linkFiles(ctx context.Context, tx *sqlx.Tx, held lease.Held, callID string, blobs []Blob, rows []fileRow) error {
	if err := pg.AdvisoryLock(ctx, tx, "files "+held.RunID+" "+callID); err != nil {
		return err
	}

	// Contents of an earlier attempt lose their links, unless this attempt has created the same
	// contents.
	var before, others [][]byte
	err := tx.SelectContext(ctx, &before, `DELETE FROM files WHERE run_id = $1 AND call_id = $2 AND org_id = $3 RETURNING hash`,
		held.RunID, callID, held.OrganizationID)
	if err != nil {
		return err
	}

	for _, hash := range before {
		if hash != nil && !containsHash(blobs, hash) {
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

// insertFiles inserts a call's files in the order of their names, and sets their
// creation times in rows.
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

	// The database returns the rows in any order.
	at := make(map[string]domain.Time, len(made))
	for _, m := range made {
		at[m.ID] = m.CreatedAt
	}

	for i := range rows {
		rows[i].CreatedAt = at[rows[i].ID]
	}

	return nil
}

// SessionFiles returns the newest file of each name in a run's session, ordered by name. It omits
// the files that the given call created, so that a repeated call gets the same files as the first
// one. If the session has more than maxNames names, SessionFiles returns the newest files. The
// boolean result is false if the worker no longer holds the run.
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

// liveFiles implements SessionFiles.
//
// It looks up the newest file of each name separately, because a folder has few names, but many
// calls may have written to it. Without statistics, PostgreSQL's planner assumes many names and few
// calls: it would read and sort all files for each name.
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
	if err == nil { // the transaction may continue with other statements
		_, err = tx.ExecContext(ctx, `SELECT set_config('enable_sort', 'on', true), set_config('enable_bitmapscan', 'on', true)`)
	}

	return rows, err
}

// OpenFile returns a file of an organization's runs and a reader of its content, which reads on
// demand under ctx. It returns not_found if no file has this id. The caller must check that the
// file's run is visible. If the session is erased while the content is read, reading fails with
// not_found.
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

// SmallFile is the maximum size, in bytes, of a file that FileContents reads: one chunk.
const SmallFile = sealdb.ChunkSize

// contentsQuery reads the contents of small files. It is prepared for the reason given for
// pieceQuery.
const contentsQuery = `SELECT f.hash, coalesce(c.sealed, 0) AS sealed, coalesce(c.data, '') AS data
	FROM unnest($2::text[]) WITH ORDINALITY AS u (id, n)
	JOIN files f ON f.id = u.id AND f.org_id = $1 AND f.hash IS NOT NULL
	LEFT JOIN blob_chunks c ON c.org_id = f.org_id AND c.hash = f.hash AND c.n = 0
	WHERE length(coalesce(c.data, '')) = f.bytes + coalesce(c.sealed, 0) * ((f.bytes + $3::int - 1) / $3::int) ORDER BY u.n`

// FileContents returns the contents of an organization's small files in the order of ids, with one
// statement. It returns not_found if any of the files does not exist or is larger than SmallFile.
// The contents are in memory, so the caller limits the number of ids.
func (s *Store) FileContents(ctx context.Context, org string, ids []string) ([][]byte, error) {
	var rows []struct {
		Hash   []byte `db:"hash"`
		Sealed int    `db:"sealed"`
		Data   []byte `db:"data"`
	}

	err := s.db.WithinPrepared(ctx, org, contentsQuery, func(stmt *sqlx.Stmt) error {
		rows = rows[:0]
		return stmt.SelectContext(ctx, &rows, org, pq.Array(ids), sealdb.PieceSize)
	})
	if err != nil {
		return nil, fmt.Errorf("reading contents: %w", err)
	}

	// If a row is missing, its file does not exist or is larger than one chunk.
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

// forgetFiles removes the files of runs. A blob is removed together with the last link to it.
func forgetFiles(ctx context.Context, tx *sqlx.Tx, runs []string) error {
	var gone, contents []Content
	if err := tx.SelectContext(ctx, &gone, `DELETE FROM files WHERE run_id = ANY ($1) RETURNING org_id, hash`, pq.Array(runs)); err != nil {
		return err
	}
	for _, f := range gone {
		if f.Hash != nil { // a removed name has no content
			contents = append(contents, f)
		}
	}
	return RemoveUnlinkedBlobs(ctx, tx, contents)
}

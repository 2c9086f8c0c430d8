package blobdb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

// ErrBlobGone means that a blob was removed or replaced before a row referred to it. The
// caller must upload it again.
var ErrBlobGone = errors.New("the content was removed before a record referred to it")

// Blob is the content of a file or document. It is stored in chunks of sealdb.ChunkSize bytes, once
// per organization and hash.
type Blob struct {
	Hash    []byte
	Bytes   int64
	content []byte // nil unless the whole blob is in memory
}

// chunks returns the number of chunks in a blob of size bytes.
func chunks(size int64) int { return int((size + sealdb.ChunkSize - 1) / sealdb.ChunkSize) }

// newBlob returns a blob with its content in memory. The caller must not change content afterwards.
func newBlob(content []byte) Blob {
	hash := sha256.Sum256(content)
	return Blob{Hash: hash[:], Bytes: int64(len(content)), content: content}
}

// Distinct returns each blob once, ordered by hash. All transactions lock rows of
// blobs in this order.
func Distinct(blobs []Blob) []Blob {
	out := slices.Clone(blobs)
	slices.SortFunc(out, func(a, b Blob) int { return slices.Compare(a.Hash, b.Hash) })
	return slices.CompactFunc(out, func(a, b Blob) bool { return slices.Equal(a.Hash, b.Hash) })
}

// containsHash reports whether blobs contains a blob with this hash.
func containsHash(blobs []Blob, hash []byte) bool {
	return slices.ContainsFunc(blobs, func(b Blob) bool { return slices.Equal(b.Hash, hash) })
}

// Hashes returns the blobs' hashes as an SQL array.
func Hashes(blobs []Blob) any {
	return pq.ByteaArray(pg.Column(blobs, func(b *Blob) []byte { return b.Hash }))
}

// batches returns the chunks of blobs in order, grouped into batches of at most one full chunk's
// bytes. Each batch is one transaction. A transaction for each small blob would be too expensive,
// and a transaction for several large blobs would take too long.
func batches(blobs []Blob) (out [][]sealdb.Chunk) {
	room := 0
	for _, b := range blobs {
		for n := range chunks(b.Bytes) {
			data := b.content[n*sealdb.ChunkSize : min((n+1)*sealdb.ChunkSize, len(b.content))]
			// If the chunk does not fit into the batch, a new batch begins.
			if len(data) > room {
				out, room = append(out, nil), sealdb.ChunkSize
			}
			room -= len(data)
			out[len(out)-1] = append(out[len(out)-1], sealdb.Chunk{Hash: b.Hash, N: n, Data: data})
		}
	}
	return out
}

// reserveBlobs inserts rows for blobs, which must be distinct. A reserved blob must be written and
// linked within an hour. An existing blob is kept for another hour. reserveBlobs reports whether
// any of the blobs was new.
func reserveBlobs(ctx context.Context, tx *sqlx.Tx, org string, blobs []Blob) (added bool, err error) {
	var news []bool
	err = tx.SelectContext(ctx, &news, `INSERT INTO blobs AS b (org_id, hash, bytes)
		SELECT $1, u.hash, u.bytes FROM unnest($2::bytea[], $3::bigint[]) AS u (hash, bytes) ORDER BY u.hash
		ON CONFLICT (org_id, hash) DO UPDATE SET sweep_after = greatest(b.sweep_after, excluded.sweep_after)
		RETURNING created_at >= now()`, org, Hashes(blobs), pq.Array(pg.Column(blobs, func(b *Blob) int64 { return b.Bytes })))
	return slices.Contains(news, true), err
}

// fillBlobs writes the missing chunks of reserved blobs, one batch per transaction.
// Concurrent writers of the same blob write identical chunks. It returns ErrBlobGone if a
// reservation has been removed.
func (s *Store) fillBlobs(ctx context.Context, org string, parts [][]sealdb.Chunk) error {
	for _, part := range parts {
		err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
			hashes := pq.ByteaArray(pg.Column(part, func(c *sealdb.Chunk) []byte { return c.Hash }))
			var there []struct {
				Hash []byte `db:"hash"`
				N    int    `db:"n"`
			}
			if err := tx.SelectContext(ctx, &there, `SELECT hash, n FROM blob_chunks WHERE org_id = $1 AND hash = ANY ($2)`, org, hashes); err != nil {
				return err
			}

			// An earlier attempt may already have written some of the chunks. Sealing and sending
			// these again would be expensive.
			missing := slices.DeleteFunc(slices.Clone(part), func(c sealdb.Chunk) bool {
				for _, t := range there {
					if t.N == c.N && slices.Equal(t.Hash, c.Hash) {
						return true
					}
				}
				return false
			})
			return s.addChunks(ctx, tx, org, missing)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// addChunks writes chunks of reserved blobs. It locks the blobs' rows, so that no chunk outlives
// its blob.
func (s *Store) addChunks(ctx context.Context, tx *sqlx.Tx, org string, part []sealdb.Chunk) error {
	if len(part) == 0 {
		return nil
	}

	hashes := pg.Column(part, func(c *sealdb.Chunk) []byte { return c.Hash })

	wanted := slices.CompactFunc(slices.Clone(hashes), slices.Equal) // chunks of the same blob are adjacent
	var held []int
	err := tx.SelectContext(ctx, &held, `SELECT 1 FROM blobs WHERE org_id = $1 AND hash = ANY ($2) ORDER BY hash FOR KEY SHARE`, org, pq.ByteaArray(wanted))
	if err != nil {
		return err
	}

	// If a row is missing, its reservation was too old and the sweeper has removed it.
	if len(held) < len(wanted) {
		return ErrBlobGone
	}

	_, err = tx.ExecContext(ctx, `INSERT INTO blob_chunks (org_id, hash, n, sealed, data)
		SELECT $1, u.hash, u.n, $5, u.data FROM unnest($2::bytea[], $3::int[], $4::bytea[]) AS u (hash, n, data) ORDER BY u.hash, u.n ON CONFLICT DO NOTHING`,
		org, pq.ByteaArray(hashes), pq.Array(pg.Column(part, func(c *sealdb.Chunk) int { return c.N })),
		pq.ByteaArray(pg.Column(part, func(c *sealdb.Chunk) []byte { return s.seals.Seal(org, c) })), s.seals.Overhead())
	return err
}

// HoldBlobs locks blobs against removal until the end of the transaction, so that the transaction
// can link to them. It returns ErrBlobGone unless all blobs are stored completely. The argument
// others contains the hashes of blobs that lose links in this transaction and may therefore be
// removed. HoldBlobs locks the blobs of both lists in the order of their hashes.
func HoldBlobs(ctx context.Context, tx *sqlx.Tx, org string, blobs []Blob, others [][]byte) error {
	// A transaction that may remove blobs needs a stronger lock on the rows.
	mode := "FOR KEY SHARE"
	if len(others) > 0 {
		mode = "FOR UPDATE"
	}

	all := append(pg.Column(blobs, func(b *Blob) []byte { return b.Hash }), others...)
	_, err := tx.ExecContext(ctx, `SELECT 1 FROM blobs WHERE org_id = $1 AND hash = ANY ($2) ORDER BY hash `+mode, org, pq.ByteaArray(all))
	if err != nil {
		return err
	}

	// A separate statement counts the chunks, so that it sees the chunks that were committed while
	// the previous statement waited for a lock.
	var found []struct {
		Hash   []byte `db:"hash"`
		Chunks int    `db:"chunks"`
	}
	err = tx.SelectContext(ctx, &found, `SELECT b.hash, count(c.n) AS chunks FROM blobs b
		LEFT JOIN blob_chunks c ON c.org_id = b.org_id AND c.hash = b.hash
		WHERE b.org_id = $1 AND b.hash = ANY ($2) GROUP BY b.hash`, org, Hashes(blobs))
	if err != nil {
		return err
	}

	// A blob is complete if all of its chunks are stored.
	written := make(map[string]int, len(found))
	for _, f := range found {
		written[string(f.Hash)] = f.Chunks
	}

	for _, b := range blobs {
		if n, there := written[string(b.Hash)]; !there || n != chunks(b.Bytes) {
			return ErrBlobGone
		}
	}

	return nil
}

// RemoveUnlinkedBlobs removes those of the given blobs that have no link left.
func RemoveUnlinkedBlobs(ctx context.Context, tx *sqlx.Tx, contents []Content) error {
	if len(contents) == 0 {
		return nil
	}
	orgs, hashes := columns(contents)
	_, err := tx.ExecContext(ctx, `SELECT remove_unlinked_blobs($1, $2)`, orgs, hashes)
	return err
}

// PruneBlobs checks up to limit blobs that are due for a check, and returns how many it checked. It
// removes the blobs without a link, and schedules the remaining blobs for another check in a day.
// Usually a blob is removed together with its last link. PruneBlobs finds blobs that were never
// linked, because a process died while it stored them.
func (s *Store) PruneBlobs(ctx context.Context, limit int) (int, error) {
	return s.prune(ctx, "blobs", limit, RemoveUnlinkedBlobs)
}

// Reader reads a blob in pieces of sealdb.PieceSize bytes, with one statement per piece. It keeps
// one piece in memory. It is not safe for concurrent use.
type Reader struct {
	load   func(n int) ([]byte, error)
	size   int64
	offset int64
	piece  []byte // the piece in memory
	n      int    // the number of the piece in memory; -1: none
}

// OpenBlob returns a reader of a stored blob of size bytes. ctx applies to all reads. OpenBlob
// itself reads nothing, so a missing blob is noticed by the first read.
func (s *Store) OpenBlob(ctx context.Context, org string, hash []byte, size int64) *Reader {
	return &Reader{size: size, n: -1, load: func(n int) ([]byte, error) { return s.pieceFor(ctx, org, hash, n) }}
}

// pieceQuery reads a piece of a chunk. It is prepared, because the results of other statements have
// byte strings in hexadecimal.
const pieceQuery = `SELECT sealed, substring(data FROM $4::int * ($5::int + sealed) + 1 FOR $5::int + sealed) AS data FROM blob_chunks
	WHERE org_id = $1 AND hash = $2 AND n = $3`

// pieceFor returns a piece of a blob. It returns not_found if the piece does not exist, because the
// blob may have been removed since it was opened.
func (s *Store) pieceFor(ctx context.Context, org string, hash []byte, n int) ([]byte, error) {
	// Each piece is sealed separately, so that a reader does not need a whole chunk.
	const each = sealdb.ChunkSize / sealdb.PieceSize
	var found struct {
		Sealed int    `db:"sealed"`
		Data   []byte `db:"data"`
	}
	err := s.db.WithinPrepared(ctx, org, pieceQuery, func(stmt *sqlx.Stmt) error {
		return stmt.GetContext(ctx, &found, org, hash, n/each, n%each, sealdb.PieceSize)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, pg.NotFound()
	}
	if err != nil || found.Sealed == 0 {
		return found.Data, err
	}

	return s.seals.Open(found.Data, sealdb.PieceName(org, hash, n), sealdb.ContentValue(org, hash, n/each))
}

// Read returns at most the bytes up to the end of the current piece. It returns not_found if the
// blob was removed.
func (r *Reader) Read(p []byte) (int, error) {
	if r.offset >= r.size {
		return 0, io.EOF
	}

	// For an empty buffer, io.Reader requires 0 bytes and permits a nil error.
	if len(p) == 0 {
		return 0, nil
	}

	n, from := int(r.offset/sealdb.PieceSize), int(r.offset%sealdb.PieceSize)
	if r.n != n {
		r.piece, r.n = nil, -1 // the old piece is released before the next one is loaded
		data, err := r.load(n)
		if err != nil {
			return 0, fmt.Errorf("reading content: %w", err)
		}
		// A shorter piece would shift the positions of all following bytes.
		if want := min(r.size-int64(n)*sealdb.PieceSize, sealdb.PieceSize); int64(len(data)) != want {
			return 0, fmt.Errorf("reading content: chunk %d has %d bytes, want %d", n, len(data), want)
		}
		r.piece, r.n = data, n
	}

	read := copy(p, r.piece[from:])
	r.offset += int64(read)
	return read, nil
}

// Seek accepts an offset after the end of the blob. A read at such an offset returns io.EOF.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, fmt.Errorf("seeking in content: invalid whence %d", whence)
	}

	if offset < 0 {
		return 0, errors.New("seeking in content: negative offset")
	}

	r.offset = offset
	return offset, nil
}

// Close releases the piece in memory.
func (r *Reader) Close() error {
	r.piece, r.n = nil, -1
	return nil
}

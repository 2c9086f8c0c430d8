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

// ErrBlobGone reports that a content was removed or replaced before a row referred to it. The caller uploads it again.
var ErrBlobGone = errors.New("the content was removed before it was linked")

// Blob is a content on its way into the database.
type Blob struct {
	Hash    []byte
	Bytes   int64
	content []byte // nil when it is not at hand as a whole
}

// chunks is how many chunks hold so many bytes.
func chunks(size int64) int { return int((size + sealdb.ChunkSize - 1) / sealdb.ChunkSize) }

func newBlob(content []byte) Blob {
	hash := sha256.Sum256(content)
	return Blob{Hash: hash[:], Bytes: int64(len(content)), content: content}
}

// Distinct gives each content once, in the order in which rows of them are locked, everywhere.
func Distinct(blobs []Blob) []Blob {
	out := slices.Clone(blobs)
	slices.SortFunc(out, func(a, b Blob) int { return slices.Compare(a.Hash, b.Hash) })
	return slices.CompactFunc(out, func(a, b Blob) bool { return slices.Equal(a.Hash, b.Hash) })
}

func holds(blobs []Blob, hash []byte) bool {
	return slices.ContainsFunc(blobs, func(b Blob) bool { return slices.Equal(b.Hash, hash) })
}

// Hashes is the array of the contents' hashes.
func Hashes(blobs []Blob) any {
	return pq.ByteaArray(pg.Column(blobs, func(b *Blob) []byte { return b.Hash }))
}

// batches gives the chunks of contents in their order, as many at a time as make up one of the largest: small contents
// are not worth a transaction each, and large ones are not for one together.
func batches(blobs []Blob) (out [][]sealdb.Chunk) {
	room := 0
	for _, b := range blobs {
		for n := range chunks(b.Bytes) {
			data := b.content[n*sealdb.ChunkSize : min((n+1)*sealdb.ChunkSize, len(b.content))]
			if len(data) > room {
				out, room = append(out, nil), sealdb.ChunkSize
			}
			room -= len(data)
			out[len(out)-1] = append(out[len(out)-1], sealdb.Chunk{Hash: b.Hash, N: n, Data: data})
		}
	}
	return out
}

// reserveBlobs enters contents, which have an hour from then on to be written and linked to. It reports whether any was not
// there.
func reserveBlobs(ctx context.Context, tx *sqlx.Tx, org string, blobs []Blob) (added bool, err error) {
	var news []bool
	err = tx.SelectContext(ctx, &news, `INSERT INTO blobs AS b (org_id, hash, bytes)
		SELECT $1, u.hash, u.bytes FROM unnest($2::bytea[], $3::bigint[]) AS u (hash, bytes) ORDER BY u.hash
		ON CONFLICT (org_id, hash) DO UPDATE SET sweep_after = greatest(b.sweep_after, excluded.sweep_after)
		RETURNING created_at >= now()`, org, Hashes(blobs), pq.Array(pg.Column(blobs, func(b *Blob) int64 { return b.Bytes })))
	return slices.Contains(news, true), err
}

// fillBlobs writes those chunks of reserved contents that are not there yet, a batch in a transaction. Whoever else keeps
// the same content writes the same chunks. errBlobGone: a reservation has been removed.
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

// addChunks keeps the contents' rows while it writes, so that no chunk is left of one that is removed.
func (s *Store) addChunks(ctx context.Context, tx *sqlx.Tx, org string, part []sealdb.Chunk) error {
	if len(part) == 0 {
		return nil
	}
	hashes := pg.Column(part, func(c *sealdb.Chunk) []byte { return c.Hash })
	wanted := slices.CompactFunc(slices.Clone(hashes), slices.Equal) // one content's are beside each other
	var held []int
	err := tx.SelectContext(ctx, &held, `SELECT 1 FROM blobs WHERE org_id = $1 AND hash = ANY ($2) ORDER BY hash FOR KEY SHARE`, org, pq.ByteaArray(wanted))
	if err != nil {
		return err
	}
	if len(held) < len(wanted) {
		return ErrBlobGone
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO blob_chunks (org_id, hash, n, sealed, data)
		SELECT $1, u.hash, u.n, $5, u.data FROM unnest($2::bytea[], $3::int[], $4::bytea[]) AS u (hash, n, data) ORDER BY u.hash, u.n ON CONFLICT DO NOTHING`,
		org, pq.ByteaArray(hashes), pq.Array(pg.Column(part, func(c *sealdb.Chunk) int { return c.N })),
		pq.ByteaArray(pg.Column(part, func(c *sealdb.Chunk) []byte { return s.seals.Seal(org, c) })), s.seals.Overhead())
	return err
}

// HoldBlobs keeps contents from being removed until the transaction ends, so that it can link to them: errBlobGone unless all are
// there and whole. others are locked with them, in the one order, for being removed: contents that links are taken from.
func HoldBlobs(ctx context.Context, tx *sqlx.Tx, org string, blobs []Blob, others [][]byte) error {
	mode := "FOR KEY SHARE"
	if len(others) > 0 {
		mode = "FOR UPDATE"
	}
	all := append(pg.Column(blobs, func(b *Blob) []byte { return b.Hash }), others...)
	_, err := tx.ExecContext(ctx, `SELECT 1 FROM blobs WHERE org_id = $1 AND hash = ANY ($2) ORDER BY hash `+mode, org, pq.ByteaArray(all))
	if err != nil {
		return err
	}
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

// RemoveUnlinkedBlobs removes those contents that nothing links to any more.
func RemoveUnlinkedBlobs(ctx context.Context, tx *sqlx.Tx, contents []Content) error {
	if len(contents) == 0 {
		return nil
	}
	orgs, hashes := columns(contents)
	_, err := tx.ExecContext(ctx, `SELECT remove_unlinked_blobs($1, $2)`, orgs, hashes)
	return err
}

// PruneBlobs looks at up to limit contents whose time has come: those that nothing links to are removed, the others looked at
// again in a day. It reports how many it has looked at. Contents mostly go with the last link to them; this finds
// those that were never linked to, because whoever kept them died on the way.
func (s *Store) PruneBlobs(ctx context.Context, limit int) (int, error) {
	return s.prune(ctx, "blobs", limit, RemoveUnlinkedBlobs)
}

// Reader reads a content a piece at a time, each in a statement of its own, and holds no more than one.
type Reader struct {
	load   func(n int) ([]byte, error)
	size   int64
	offset int64
	piece  []byte // the one that is held
	n      int    // its number; -1: none is
}

// OpenBlob reads a content that is there; ctx is that of all reading.
func (s *Store) OpenBlob(ctx context.Context, org string, hash []byte, size int64) *Reader {
	return &Reader{size: size, n: -1, load: func(n int) ([]byte, error) { return s.pieceFor(ctx, org, hash, n) }}
}

// pieceFor fails when there is no such piece: it may have gone since the content was opened.
func (s *Store) pieceFor(ctx context.Context, org string, hash []byte, n int) ([]byte, error) {
	const each = sealdb.ChunkSize / sealdb.PieceSize
	var found struct {
		Sealed int    `db:"sealed"`
		Data   []byte `db:"data"`
	}
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &found, `SELECT sealed, substring(data FROM $4::int * ($5::int + sealed) + 1 FOR $5::int + sealed) AS data FROM blob_chunks
			WHERE org_id = $1 AND hash = $2 AND n = $3`, org, hash, n/each, n%each, sealdb.PieceSize)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, pg.NotFound()
	}
	if err != nil || found.Sealed == 0 {
		return found.Data, err
	}
	return s.seals.Open(found.Data, sealdb.PieceName(org, hash, n), sealdb.ContentValue(org, hash, n/each))
}

// Read reads up to the end of a piece.
func (r *Reader) Read(p []byte) (int, error) {
	if r.offset >= r.size {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, from := int(r.offset/sealdb.PieceSize), int(r.offset%sealdb.PieceSize)
	if r.n != n {
		r.piece, r.n = nil, -1 // not two of them, not even while the next one comes
		data, err := r.load(n)
		if err != nil {
			return 0, fmt.Errorf("reading content: %w", err)
		}
		if want := min(r.size-int64(n)*sealdb.PieceSize, sealdb.PieceSize); int64(len(data)) != want {
			return 0, fmt.Errorf("reading content: chunk %d has %d bytes, not %d", n, len(data), want)
		}
		r.piece, r.n = data, n
	}
	read := copy(p, r.piece[from:])
	r.offset += int64(read)
	return read, nil
}

// Seek may go beyond the end, where there is nothing to read.
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

// Close lets go of what is held.
func (r *Reader) Close() error {
	r.piece, r.n = nil, -1
	return nil
}

package blobdb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

// ErrTooLarge means that a blob has more bytes than the caller allowed.
var ErrTooLarge = errors.New("the content is too large")

// Upload is a completely stored blob without a link. The sweeper removes the blob unless a link to
// it is made within an hour.
type Upload struct {
	Hash  []byte // SHA-256
	Bytes int64
}

// Blob returns the uploaded blob without its bytes.
func (u Upload) Blob() Blob { return Blob{Hash: u.Hash, Bytes: u.Bytes} }

// initialBuffer is the initial size of the buffer for a blob. The buffer grows to at most one
// chunk.
const initialBuffer = 64 << 10

// cleanUpTimeout is the timeout for removing a failed upload, whose own context may have ended.
const cleanUpTimeout = 5 * time.Second

// Upload stores a blob of at most the given number of bytes for an organization. It keeps at most
// one chunk, and the driver's copy of that chunk, in memory. If the content is larger, Upload
// returns ErrTooLarge. It returns errors from reading the content unchanged. After an error, no
// part of the blob remains stored.
//
// The hash of a blob is known only after its last byte. A blob of several chunks is therefore
// stored under a random name first. If the process dies in the meantime, the sweeper removes the
// blob.
func (s *Store) Upload(ctx context.Context, org string, content io.Reader, maximum int64) (Upload, error) {
	in := &chunkReader{from: content, maximum: maximum, sum: sha256.New(), buffer: make([]byte, initialBuffer)}
	first, last, err := in.next()
	if err != nil {
		return Upload{}, err
	}

	// The whole content is in memory, so its hash is already known.
	if last {
		b := newBlob(first)
		if err := s.storeBlob(ctx, org, b); err != nil {
			return Upload{}, fmt.Errorf("storing content: %w", err)
		}
		return Upload{Hash: b.Hash, Bytes: b.Bytes}, nil
	}

	name := make([]byte, sha256.Size)
	_, _ = rand.Read(name) // never fails
	out, err := s.uploadAs(ctx, org, name, first, in)
	if err == nil {
		return out, nil
	}

	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	if left := s.DropUnlinked(clean, org, name); left != nil {
		err = errors.Join(err, fmt.Errorf("removing the stored chunks: %w", left))
	}

	return Upload{}, err
}

// chunkReader reads a blob chunk by chunk into one buffer.
type chunkReader struct {
	from    io.Reader
	maximum int64
	read    int64     // bytes so far
	sum     hash.Hash // of the bytes so far
	buffer  []byte
}

// next returns the next chunk and whether it is the last chunk. The chunk is valid until the
// following call of next. next does not use [io.ReadFull], which does not distinguish a truncated
// body from a complete body.
func (in *chunkReader) next() (data []byte, last bool, err error) {
	// A reader may return neither data nor an error. The number of such results in a row is
	// limited.
	n, idle := 0, 0
	for n < sealdb.ChunkSize && !last && idle < 100 {
		if n == len(in.buffer) {
			in.buffer = append(in.buffer, make([]byte, min(3*n, sealdb.ChunkSize-n))...)
		}
		// A reader may return data together with an error, so data is counted before the error is
		// checked.
		got, err := in.from.Read(in.buffer[n:])
		n += got
		idle++
		if got > 0 {
			idle = 0
		}
		if last = errors.Is(err, io.EOF); err != nil && !last {
			return nil, false, err
		}
	}

	// The loop has ended because the reader returned neither data nor an error too often.
	if n < sealdb.ChunkSize && !last {
		return nil, false, io.ErrNoProgress
	}

	// The size is checked after each chunk, so that an endless content does not fill the database.
	if in.read += int64(n); in.read > in.maximum {
		return nil, false, ErrTooLarge
	}

	_, _ = in.sum.Write(in.buffer[:n]) // a hash never fails
	return in.buffer[:n], last, nil
}

// uploadAs stores a blob of several chunks under a temporary name and then renames it to its
// hash. data is the first chunk.
func (s *Store) uploadAs(ctx context.Context, org string, name, data []byte, in *chunkReader) (Upload, error) {
	if err := s.storeBlob(ctx, org, Blob{Hash: name}); err != nil {
		return Upload{}, fmt.Errorf("storing content: %w", err)
	}

	// Each chunk is stored before the next chunk is read into the same buffer.
	for n, last := 0, false; len(data) > 0; n++ {
		err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
			return s.addChunks(ctx, tx, org, []sealdb.Chunk{{Hash: name, N: n, Data: data}})
		})
		if err != nil {
			return Upload{}, fmt.Errorf("storing content: %w", err)
		}
		if last {
			break
		}
		if data, last, err = in.next(); err != nil {
			return Upload{}, err
		}
	}

	out := Upload{Hash: in.sum.Sum(nil), Bytes: in.read}

	// When the blob gets its final name, chunks that are not sealed are not copied. Sealed chunks
	// must be copied, because a sealed chunk can be opened only under the name for which it was
	// sealed.
	rename := s.rename
	if s.seals.Overhead() > 0 {
		rename = s.renameSealed
	}

	var err error
	for range maxKeepTries {
		if err = rename(ctx, org, name, out); !errors.Is(err, ErrBlobGone) {
			break
		}
	}

	if err != nil {
		return Upload{}, fmt.Errorf("storing content: %w", err)
	}

	return out, nil
}

// storeBlob stores a blob of at most one chunk. If the content of the blob is not in memory,
// storeBlob only reserves the blob.
func (s *Store) storeBlob(ctx context.Context, org string, b Blob) error {
	return s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if _, err := reserveBlobs(ctx, tx, org, []Blob{b}); err != nil || len(b.content) == 0 {
			return err
		}
		return s.addChunks(ctx, tx, org, []sealdb.Chunk{{Hash: b.Hash, N: 0, Data: b.content}})
	})
}

// DropUnlinked removes those of the given blobs that have no link. Unknown hashes are ignored.
func (s *Store) DropUnlinked(ctx context.Context, org string, hashes ...[]byte) error {
	return s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error { return RemoveUnlinkedBlobs(ctx, tx, Contents(org, hashes)) })
}

// rename renames a stored blob to its hash without copying its chunks. It locks the row, so that no
// chunk is added in the meantime. Chunks that already exist under the hash are kept, and their
// duplicates are deleted.
func (s *Store) rename(ctx context.Context, org string, name []byte, to Upload) error {
	return s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if _, err := reserveBlobs(ctx, tx, org, []Blob{to.Blob()}); err != nil {
			return err
		}

		var held []int
		err := tx.SelectContext(ctx, &held, `SELECT 1 FROM blobs WHERE org_id = $1 AND hash = ANY ($2) ORDER BY hash FOR UPDATE`,
			org, pq.ByteaArray{name, to.Hash})
		if err != nil {
			return err
		}

		// If a row is missing, the temporary blob or the target was removed meanwhile.
		if len(held) != 2 {
			return ErrBlobGone
		}

		for _, query := range []string{
			`DELETE FROM blob_chunks t WHERE t.org_id = $1 AND t.hash = $2
				AND EXISTS (SELECT 1 FROM blob_chunks c WHERE c.org_id = $1 AND c.hash = $3 AND c.n = t.n)`,
			`UPDATE blob_chunks SET hash = $3 WHERE org_id = $1 AND hash = $2`,
			`DELETE FROM blobs WHERE org_id = $1 AND hash = $2 AND hash <> $3`,
		} {
			if _, err := tx.ExecContext(ctx, query, org, name, to.Hash); err != nil {
				return err
			}
		}

		return nil
	})
}

// renameSealed is like rename, for sealed blobs. A sealed chunk can be opened only under the name
// for which it was sealed, so each chunk is sealed again for the new name.
func (s *Store) renameSealed(ctx context.Context, org string, name []byte, to Upload) error {
	var there []int
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if _, err := reserveBlobs(ctx, tx, org, []Blob{to.Blob()}); err != nil {
			return err
		}
		there = there[:0]
		return tx.SelectContext(ctx, &there, `SELECT n FROM blob_chunks WHERE org_id = $1 AND hash = $2`, org, to.Hash)
	})

	// With one transaction per chunk, only a single chunk is in memory.
	for n := range chunks(to.Bytes) {
		if err == nil && !slices.Contains(there, n) {
			err = s.resealChunk(ctx, org, name, to.Hash, n)
		}
	}

	if err != nil {
		return err
	}

	return s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if err := HoldBlobs(ctx, tx, org, []Blob{to.Blob()}, [][]byte{name}); err != nil {
			return err
		}
		return RemoveUnlinkedBlobs(ctx, tx, Contents(org, [][]byte{name}))
	})
}

// resealChunk copies a chunk from one blob to another, and seals the copy for the other blob's
// name.
func (s *Store) resealChunk(ctx context.Context, org string, name, to []byte, n int) error {
	return s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		var found struct {
			Sealed int    `db:"sealed"`
			Data   []byte `db:"data"`
		}
		err := tx.GetContext(ctx, &found, `SELECT sealed, data FROM blob_chunks WHERE org_id = $1 AND hash = $2 AND n = $3`, org, name, n)
		if err != nil {
			return err
		}

		data, err := s.seals.Unseal(org, sealdb.Chunk{Hash: name, N: n, Data: found.Data}, found.Sealed)
		if err != nil {
			return err
		}

		return s.addChunks(ctx, tx, org, []sealdb.Chunk{{Hash: to, N: n, Data: data}})
	})
}

// DropUploads immediately removes uploads without a link, for example after a failed request.
// Otherwise the sweeper would remove them later.
func (s *Store) DropUploads(ctx context.Context, org string, uploads []Upload) error {
	if err := s.DropUnlinked(ctx, org, pg.Column(uploads, func(u *Upload) []byte { return u.Hash })...); err != nil {
		return fmt.Errorf("removing uploads: %w", err)
	}
	return nil
}

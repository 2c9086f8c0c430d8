package sealdb

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Sealer seals blobs before they are stored, and opens them. The argument associated identifies the
// location of a blob. A sealed blob can be opened only with the same associated data. Sealing adds
// a constant number of bytes.
type Sealer interface {
	SealBytes(plain, associated []byte) []byte
	OpenBytes(sealed, associated []byte) ([]byte, error)
}

// ErrContentSealed means that a blob cannot be read, because the key to open it is missing. A blob
// that was changed in the database causes the same error.
var ErrContentSealed = errors.New("the content is encrypted, and its key is missing")

// SealContents makes the store seal the contents of files, documents and deliveries that it
// stores from now on. Call it before the store is used.
func (s *Store) SealContents(box Sealer) {
	s.OpenContents(box)
	s.sealing = len(box.SealBytes(nil, nil))
}

// OpenContents makes the store open sealed blobs. Unlike SealContents, it does not make the store
// seal new blobs. Call it before the store is used.
func (s *Store) OpenContents(box Sealer) { s.sealer = box }

// ReportUnopened sets a function that is called when no key can open a blob or a delivery body that
// is read. The function gets the identity of the value and the sealed bytes. Call ReportUnopened
// before the store is used.
func (s *Store) ReportUnopened(report func(v Value, sealed []byte)) { s.unopened = report }

// PieceName returns the associated data for a piece of a blob. The data is unique per organization,
// blob and number.
func PieceName(org string, hash []byte, n int) []byte {
	out := append([]byte("parley content|"), hash...)
	return append(binary.BigEndian.AppendUint64(out, uint64(n)), org...)
}

// Seal returns the bytes to store for a chunk: its sealed pieces, one after the other. Without
// sealing, it returns the chunk's data.
func (s *Store) Seal(org string, c *Chunk) []byte {
	// Sealing is switched off.
	if s.sealing == 0 {
		return c.Data
	}
	out, n := make([]byte, 0, len(c.Data)+ChunkSize/PieceSize*s.sealing), c.N*(ChunkSize/PieceSize)
	for piece := range slices.Chunk(c.Data, PieceSize) {
		out = append(out, s.sealer.SealBytes(piece, PieceName(org, c.Hash, n))...)
		n++
	}
	return out
}

// Unseal returns the data of a stored chunk. sealing is the number of bytes that sealing has added
// to each piece, or 0 if the chunk is not sealed.
func (s *Store) Unseal(org string, c Chunk, sealing int) ([]byte, error) {
	if sealing == 0 {
		return c.Data, nil
	}

	out, n := make([]byte, 0, len(c.Data)), c.N*(ChunkSize/PieceSize)
	for piece := range slices.Chunk(c.Data, PieceSize+sealing) {
		// The name of a piece is authenticated, so pieces cannot be exchanged unnoticed.
		plain, err := s.Open(piece, PieceName(org, c.Hash, n), ContentValue(org, c.Hash, c.N))
		if err != nil {
			return nil, err
		}
		out = append(out, plain...)
		n++
	}

	return out, nil
}

// ContentValue returns the identity of a chunk of a blob, for reports to an operator.
func ContentValue(org string, hash []byte, n int) Value {
	return Value{Kind: KindContent, OrganizationID: org, ID: hex.EncodeToString(hash), Part: strconv.Itoa(n)}
}

// Open opens a piece. name is the associated data of the piece, and v is the value that contains
// the piece, for reports. Open returns ErrContentSealed if no key can open the piece.
func (s *Store) Open(piece, name []byte, v Value) ([]byte, error) {
	if s.sealer == nil {
		return nil, ErrContentSealed
	}
	plain, err := s.sealer.OpenBytes(piece, name)
	if err != nil {
		if s.unopened != nil {
			s.unopened(v, piece)
		}
		return nil, fmt.Errorf("%w: %w", ErrContentSealed, err)
	}
	return plain, nil
}

// DeliveryName returns the associated data for a delivery's body.
func DeliveryName(org, hookID, id string) []byte {
	return []byte("parley delivery|" + org + "|" + hookID + "|" + id)
}

// SealDelivery returns the bytes to store for a delivery's body. Without sealing, it returns the
// body.
func (s *Store) SealDelivery(org, hookID, id string, body []byte) []byte {
	if s.sealing == 0 {
		return body
	}
	return s.sealer.SealBytes(body, DeliveryName(org, hookID, id))
}

// ChunkSize is the size in bytes of the chunks in which a blob is written. The schema and
// stored data depend on it.
const ChunkSize = 1 << 20

// Chunk is a part of a blob. N is its number within the blob, from 0. All chunks except the last
// have ChunkSize bytes.
type Chunk struct {
	Hash []byte
	N    int
	Data []byte
}

// PieceSize is the size in bytes of the pieces in which a blob is read; it divides ChunkSize. A
// reader has only one piece in memory, so many slow readers need little memory.
const PieceSize = 128 << 10

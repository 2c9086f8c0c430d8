package sealdb

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Sealer seals contents before they are stored, and opens them. What it gives for a content in one place it opens in no other,
// and is by so many bytes longer, whatever the content.
type Sealer interface {
	SealBytes(plain, associated []byte) []byte
	OpenBytes(sealed, associated []byte) ([]byte, error)
}

// ErrContentSealed says that a content cannot be read, because no key is there to open it.
var ErrContentSealed = errors.New("the content is encrypted, and its key is missing")

// SealContents makes the store seal the contents that it keeps, of files and documents, from then on. It is called before the
// store is used.
func (s *Store) SealContents(box Sealer) {
	s.OpenContents(box)
	s.sealing = len(box.SealBytes(nil, nil))
}

// OpenContents makes the store open contents that were sealed, as SealContents does, too; those that it keeps are kept as they
// are. It is called before the store is used.
func (s *Store) OpenContents(box Sealer) { s.sealer = box }

// ReportUnopened has report called with each content or body of a delivery that is read and that no key opens, and with its sealed bytes.
// It is called before the store is used.
func (s *Store) ReportUnopened(report func(v Value, sealed []byte)) { s.unopened = report }

// PieceName is the place of a content's piece, for the sealer: of no other organization, content or number.
func PieceName(org string, hash []byte, n int) []byte {
	out := append([]byte("parley content|"), hash...)
	return append(binary.BigEndian.AppendUint64(out, uint64(n)), org...)
}

// Seal gives what is stored of a chunk.
func (s *Store) Seal(org string, c *Chunk) []byte {
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

// Unseal gives the data of a chunk of which that is stored.
func (s *Store) Unseal(org string, c Chunk, sealing int) ([]byte, error) {
	if sealing == 0 {
		return c.Data, nil
	}
	out, n := make([]byte, 0, len(c.Data)), c.N*(ChunkSize/PieceSize)
	for piece := range slices.Chunk(c.Data, PieceSize+sealing) {
		plain, err := s.Open(piece, PieceName(org, c.Hash, n), ContentValue(org, c.Hash, c.N))
		if err != nil {
			return nil, err
		}
		out = append(out, plain...)
		n++
	}
	return out, nil
}

// ContentValue names a chunk of a content for an operator.
func ContentValue(org string, hash []byte, n int) Value {
	return Value{Kind: KindContent, OrganizationID: org, ID: hex.EncodeToString(hash), Part: strconv.Itoa(n)}
}

// Open opens a piece of the name, which is a part of v.
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

// DeliveryName is the place of a delivery's body, for the sealer.
func DeliveryName(org, hookID, id string) []byte {
	return []byte("parley delivery|" + org + "|" + hookID + "|" + id)
}

// SealDelivery returns what is stored of a delivery's body.
func (s *Store) SealDelivery(org, hookID, id string, body []byte) []byte {
	if s.sealing == 0 {
		return body
	}
	return s.sealer.SealBytes(body, DeliveryName(org, hookID, id))
}

// ChunkSize is how much of a content is sent to and from the database at a time; the schema and what is stored hold it.
const ChunkSize = 1 << 20

// Chunk is a part of a content.
type Chunk struct {
	Hash []byte
	N    int
	Data []byte
}

// PieceSize is how much of a content is read and held at a time, an even part of a chunk: many who read slowly hold as many.
const PieceSize = 128 << 10

package secrets

import (
	"encoding/hex"
	"slices"
)

// bytesVersion is the first byte of the output of SealBytes. The key's id and the
// cipher's output follow.
const bytesVersion = 1

// keyIDSize is the number of bytes of a key's id.
const keyIDSize = 4

// SealBytes is like Seal, for the contents of files and documents. Its output is binary and longer
// than the argument plain by a constant number of bytes.
func (b *Box) SealBytes(plain, associated []byte) []byte {
	aead := b.keys[b.sealing]
	id, err := hex.DecodeString(b.sealing)
	if err != nil {
		panic(err) // set by NewBox
	}

	// The version and the key's id are authenticated together with the location, so they cannot be
	// changed either.
	out := make([]byte, 0, 1+keyIDSize+len(plain)+aead.Overhead())
	out = append(append(out, bytesVersion), id...)
	return aead.Seal(out, nil, plain, slices.Concat(out, associated)) //nolint:gosec // G407: the cipher draws the nonce
}

// OpenBytes is the inverse of SealBytes. Its errors are those of Open.
func (b *Box) OpenBytes(sealed, associated []byte) ([]byte, error) {
	const head = 1 + keyIDSize
	if len(sealed) < head || sealed[0] != bytesVersion {
		return nil, ErrSealed
	}

	aead := b.keys[hex.EncodeToString(sealed[1:head])]
	if aead == nil {
		return nil, ErrSealed
	}

	plain, err := aead.Open(nil, nil, sealed[head:], slices.Concat(sealed[:head], associated))
	if err != nil {
		return nil, ErrSealed
	}

	return plain, nil
}

// KeyIDOfBytes is like KeyID, for the output of SealBytes.
func KeyIDOfBytes(sealed []byte) string {
	if len(sealed) < 1+keyIDSize || sealed[0] != bytesVersion {
		return Malformed
	}
	return hex.EncodeToString(sealed[1 : 1+keyIDSize])
}

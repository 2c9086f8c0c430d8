package id

import (
	"crypto/sha256"

	"go.jetify.com/typeid/v2"
)

// Derived returns the id, with the prefix, of a resource that belongs to another one in a role,
// for example the message of a run. It is deterministic and has the time of the other id. It
// panics if the prefix is not lower-case letters.
func Derived(prefix, of, role string) string {
	sum := sha256.Sum256([]byte(of + "\x00" + role))
	raw := sum[:16]
	if parsed, err := typeid.Parse(of); err == nil {
		copy(raw[:6], parsed.Bytes()) // a UUIDv7 begins with its time
	}
	raw[6] = 0x70 | raw[6]&0x0f // the version, 7
	raw[8] = 0x80 | raw[8]&0x3f // the variant
	derived, err := typeid.FromBytes(prefix, raw)
	if err != nil {
		panic(err) // the prefix is a constant of this package
	}
	return derived.String()
}

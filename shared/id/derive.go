package id

import (
	"crypto/sha256"

	"go.jetify.com/typeid/v2"
)

// Derived gives the id with the prefix that belongs to another id in a role, such as the message of a
// run: always the same, and of the other id's time. It panics only on a prefix that is not lower-case letters.
func Derived(prefix, of, role string) string {
	sum := sha256.Sum256([]byte(of + "\x00" + role))
	raw := sum[:16]
	if parsed, err := typeid.Parse(of); err == nil {
		copy(raw[:6], parsed.Bytes()) // a UUIDv7 begins with its time
	}
	raw[6] = 0x70 | raw[6]&0x0f // the version, 7
	raw[8] = 0x80 | raw[8]&0x3f // and the variant
	derived, err := typeid.FromBytes(prefix, raw)
	if err != nil {
		panic(err) // the prefix is a constant of this package
	}
	return derived.String()
}

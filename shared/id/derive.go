package id

import (
	"crypto/sha256"

	"go.jetify.com/typeid/v2"
)

// Derived returns the id of a resource that belongs to another resource, for example the id of a
// run's message. The argument owner is the other resource's id, and the argument role distinguishes
// several resources of the same owner. The result is deterministic and contains the time of the
// owner's id. Derived panics if the prefix is not lower-case letters.
func Derived(prefix, owner, role string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + role))
	raw := sum[:16]
	if parsed, err := typeid.Parse(owner); err == nil {
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

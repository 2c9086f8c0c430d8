package id

import (
	"time"

	"go.jetify.com/typeid/v2"
)

// First returns the smallest id with the prefix for a time. Ids that were generated at an earlier
// time, by their process's clock, are smaller. It panics if the prefix is not lower-case letters.
func First(prefix string, at time.Time) string {
	raw := make([]byte, 16)
	ms := max(at.UnixMilli(), 0)
	for i := range 6 { // a UUIDv7 begins with its time
		raw[i] = byte(ms >> (8 * (5 - i)))
	}
	raw[6], raw[8] = 0x70, 0x80 // the version, 7, and the variant
	first, err := typeid.FromBytes(prefix, raw)
	if err != nil {
		panic(err) // the prefix is a constant of this package
	}
	return first.String()
}

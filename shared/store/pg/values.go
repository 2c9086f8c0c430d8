package pg

import (
	"fmt"
	"time"
)

// Column returns the values of one field of all rows as a slice, which can be passed to unnest as
// an array.
func Column[T, V any](rows []T, f func(*T) V) []V {
	out := make([]V, len(rows))
	for i := range rows {
		out[i] = f(&rows[i])
	}
	return out
}

// Optional returns nil for the empty string.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Deref returns the empty string for nil.
func Deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Interval formats a duration as a PostgreSQL interval.
func Interval(d time.Duration) string { return fmt.Sprintf("%d milliseconds", d.Milliseconds()) }

package domain

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// timeLayout is the only form of times in the HTTP API. All times have the same length, so they can
// be sorted as texts.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Time is a time whose JSON form is RFC 3339 in UTC with milliseconds.
type Time struct{ time.Time }

// At truncates a time to milliseconds in UTC, so that the stored time equals the displayed time.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// AtPtr is the variant of At for optional fields. It returns a pointer, which is nil for the zero
// time.
func AtPtr(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	at := At(t)
	return &at
}

// MarshalJSON writes the time in the layout 2006-01-02T15:04:05.000Z.
func (t Time) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(timeLayout)+2)
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, timeLayout)
	return append(b, '"'), nil
}

// UnmarshalJSON reads any RFC 3339 time and truncates it to milliseconds.
func (t *Time) UnmarshalJSON(b []byte) error {
	var inner time.Time
	if err := inner.UnmarshalJSON(b); err != nil {
		return fmt.Errorf("reading time: %w", err)
	}
	*t = At(inner)
	return nil
}

// Scan reads a timestamptz column.
func (t *Time) Scan(src any) error {
	v, ok := src.(time.Time)
	if !ok {
		return fmt.Errorf("scanning time: got %T", src)
	}
	*t = At(v)
	return nil
}

// Value returns the time for a timestamptz column.
func (t Time) Value() (driver.Value, error) { return t.Time, nil }

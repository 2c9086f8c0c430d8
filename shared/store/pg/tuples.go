package pg

import (
	"encoding/hex"
	"strconv"
	"time"

	"parley/shared/domain"
)

// Tuples encodes rows as a PostgreSQL array of a composite type. Such an array is written and
// parsed faster than one array per column. The fields of a row are added between the calls of Next
// and Done, in the order of the type's fields.
type Tuples struct {
	text  []byte
	first bool // true if no field of the current row has been added yet
}

// NewTuples returns an empty array with room for rows of the given size in bytes.
func NewTuples(rows, bytes int) *Tuples {
	return &Tuples{text: append(make([]byte, 0, rows*bytes), '{')}
}

// String returns the array. Done must have been called for every row.
func (t *Tuples) String() string { return string(t.text) + "}" }

// Next begins a row.
func (t *Tuples) Next() {
	if len(t.text) > 1 {
		t.text = append(t.text, ',')
	}
	t.text, t.first = append(t.text, '"', '('), true
}

// Done ends a row.
func (t *Tuples) Done() { t.text = append(t.text, ')', '"') }

// comma separates a new field from the previous field of the row, if any.
func (t *Tuples) comma() {
	if !t.first {
		t.text = append(t.text, ',')
	}
	t.first = false
}

// Null adds a null field.
func (t *Tuples) Null() { t.comma() }

// Text adds a text, or any value that PostgreSQL can parse from a text. Quotes and backslashes are
// escaped twice: for the row and for the array.
func (t *Tuples) Text(s string) {
	t.comma()
	t.text = append(t.text, '\\', '"')

	// Copy the text in parts, each up to the next special character.
	from := 0
	for i := range len(s) {
		switch s[i] {
		case '"':
			t.text = append(append(t.text, s[from:i]...), `\"\"`...)
		case '\\':
			t.text = append(append(t.text, s[from:i]...), `\\\\`...)
		default:
			continue
		}
		from = i + 1
	}

	t.text = append(append(t.text, s[from:]...), '\\', '"')
}

// Optional adds a text, or null if it is empty.
func (t *Tuples) Optional(s string) {
	if s == "" {
		t.Null()
		return
	}
	t.Text(s)
}

// Bytes adds a bytea, or null if it is nil.
func (t *Tuples) Bytes(b []byte) {
	t.comma()
	if b == nil {
		return
	}

	// The text form of a bytea is \x and hexadecimal digits. The backslash is escaped twice, as in
	// Text.
	t.text = hex.AppendEncode(append(t.text, `\"\\\\x`...), b)
	t.text = append(t.text, '\\', '"')
}

// Int adds a number.
func (t *Tuples) Int(n int64) {
	t.comma()
	t.text = strconv.AppendInt(t.text, n, 10)
}

// Positive adds a number, or null if the number is zero.
func (t *Tuples) Positive(n int64) {
	if n == 0 {
		t.Null()
		return
	}
	t.Int(n)
}

// Time adds the time at, or null if at is nil.
func (t *Tuples) Time(at *domain.Time) {
	t.comma()
	if at == nil {
		return
	}
	t.text = at.UTC().AppendFormat(append(t.text, '\\', '"'), time.RFC3339Nano)
	t.text = append(t.text, '\\', '"')
}

package pg

import (
	"encoding/hex"
	"strconv"
	"time"

	"parley/shared/domain"
)

// Tuples writes rows as PostgreSQL reads an array of a composite type: an array of columns each would be as many arrays to write and to
// read, for every statement. The fields of a row are added in the type's order, between next and done.
type Tuples struct {
	text  []byte
	first bool // no field of the row has been added
}

// NewTuples has room for rows of some bytes each.
func NewTuples(rows, bytes int) *Tuples {
	return &Tuples{text: append(make([]byte, 0, rows*bytes), '{')}
}

// String is the array, once all rows are done.
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

func (t *Tuples) comma() {
	if !t.first {
		t.text = append(t.text, ',')
	}
	t.first = false
}

// Null adds a field without a value.
func (t *Tuples) Null() { t.comma() }

// Text adds a text, or what PostgreSQL reads from one. What quotes is itself quoted twice: in the row, and in the array.
func (t *Tuples) Text(s string) {
	t.comma()
	t.text = append(t.text, '\\', '"')
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

// Optional adds a text; the empty one is null.
func (t *Tuples) Optional(s string) {
	if s == "" {
		t.Null()
		return
	}
	t.Text(s)
}

// Bytes adds a bytea; nil is null.
func (t *Tuples) Bytes(b []byte) {
	t.comma()
	if b == nil {
		return
	}
	t.text = hex.AppendEncode(append(t.text, `\"\\\\x`...), b)
	t.text = append(t.text, '\\', '"')
}

// Int adds a number.
func (t *Tuples) Int(n int64) {
	t.comma()
	t.text = strconv.AppendInt(t.text, n, 10)
}

// Positive adds a number; zero is null.
func (t *Tuples) Positive(n int64) {
	if n == 0 {
		t.Null()
		return
	}
	t.Int(n)
}

// Time adds an instant; nil is null.
func (t *Tuples) Time(at *domain.Time) {
	t.comma()
	if at == nil {
		return
	}
	t.text = at.UTC().AppendFormat(append(t.text, '\\', '"'), time.RFC3339Nano)
	t.text = append(t.text, '\\', '"')
}

package store

import (
	"encoding/hex"
	"strconv"
	"time"

	"parley/shared/domain"
)

// tuples writes rows as PostgreSQL reads an array of a composite type: an array of columns each would be as many arrays to write and to
// read, for every statement. The fields of a row are added in the type's order, between next and done.
type tuples struct {
	text  []byte
	first bool // no field of the row has been added
}

// newTuples has room for rows of some bytes each.
func newTuples(rows, bytes int) *tuples {
	return &tuples{text: append(make([]byte, 0, rows*bytes), '{')}
}

// String is the array, once all rows are done.
func (t *tuples) String() string { return string(t.text) + "}" }

func (t *tuples) next() {
	if len(t.text) > 1 {
		t.text = append(t.text, ',')
	}
	t.text, t.first = append(t.text, '"', '('), true
}

func (t *tuples) done() { t.text = append(t.text, ')', '"') }

func (t *tuples) comma() {
	if !t.first {
		t.text = append(t.text, ',')
	}
	t.first = false
}

// null adds a field without a value.
func (t *tuples) null() { t.comma() }

// string adds a text, or what PostgreSQL reads from one. What quotes is itself quoted twice: in the row, and in the array.
func (t *tuples) string(s string) {
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

// optional adds a text; the empty one is null.
func (t *tuples) optional(s string) {
	if s == "" {
		t.null()
		return
	}
	t.string(s)
}

// bytes adds a bytea; nil is null.
func (t *tuples) bytes(b []byte) {
	t.comma()
	if b == nil {
		return
	}
	t.text = hex.AppendEncode(append(t.text, `\"\\\\x`...), b)
	t.text = append(t.text, '\\', '"')
}

func (t *tuples) int(n int64) {
	t.comma()
	t.text = strconv.AppendInt(t.text, n, 10)
}

// positive adds a number; zero is null.
func (t *tuples) positive(n int64) {
	if n == 0 {
		t.null()
		return
	}
	t.int(n)
}

// time adds an instant; nil is null.
func (t *tuples) time(at *domain.Time) {
	t.comma()
	if at == nil {
		return
	}
	t.text = at.UTC().AppendFormat(append(t.text, '\\', '"'), time.RFC3339Nano)
	t.text = append(t.text, '\\', '"')
}

package pg

import (
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/testkit"
)

// PostgreSQL parses rendered tuples back to the original values.
func TestTuplesAreReadAsTheyWereMeant(t *testing.T) {
	t.Parallel()
	db := testkit.SQL(t, testkit.Postgres(t))
	if _, err := db.ExecContext(t.Context(), `CREATE TYPE row_of_all AS (a text, b text, c bytea, d bigint, e bigint, f timestamptz, g json)`); err != nil {
		t.Fatal(err)
	}
	at := domain.At(time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC))
	texts := []string{
		"", "plain", `"`, `\`, `\"`, `"",`, `a, (b) {c} "d" \e 'f'`, "NULL", "null", " padded ", "two\nlines\ttab", "äöü 漢字 🙂", `\x00ff`, "{}", "()", "$1",
	}
	rows := NewTuples(len(texts), 32)
	for i, text := range texts {
		rows.Next()
		rows.Text(text)
		rows.Optional(text)
		rows.Bytes([]byte(text))
		rows.Int(int64(-i))
		rows.Positive(int64(i))
		rows.Time(&at)
		rows.Text(`{"k":"\"\\ é"}`)
		rows.Done()
	}
	rows.Next()
	rows.Null()
	rows.Null()
	rows.Bytes(nil)
	rows.Int(1)
	rows.Null()
	rows.Time(nil)
	rows.Null()
	rows.Done()

	type row struct {
		a, b, g *string
		c       []byte
		d       int64
		e       *int64
		f       *time.Time
	}
	read, err := db.QueryContext(t.Context(), `SELECT a, b, c, d, e, f, g->>'k' FROM unnest($1::row_of_all[])`, rows.String())
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var got []row
	for read.Next() {
		var r row
		if err := read.Scan(&r.a, &r.b, &r.c, &r.d, &r.e, &r.f, &r.g); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if err := read.Err(); err != nil || len(got) != len(texts)+1 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	for i, text := range texts {
		r := got[i]
		if r.a == nil || *r.a != text || (r.b == nil) != (text == "") || r.b != nil && *r.b != text || string(r.c) != text ||
			r.d != int64(-i) || (r.e == nil) != (i == 0) || r.f == nil || !r.f.Equal(at.Time) || r.g == nil || *r.g != `"\ é` {
			t.Errorf("%q became %+v", text, r)
		}
	}
	if r := got[len(texts)]; r.a != nil || r.b != nil || r.c != nil || r.d != 1 || r.e != nil || r.f != nil || r.g != nil {
		t.Errorf("nothing became %+v", r)
	}

	if empty := NewTuples(0, 0).String(); empty != "{}" {
		t.Errorf("no rows became %s", empty)
	}
}

package testkit

import (
	"context"
	"database/sql"
	"testing"
)

// TestLender checks when a database is lent again, and that it then has no rows of earlier tests.
func TestLender(t *testing.T) { //nolint:paralleltest,tparallel // a subtest gets the database of the subtest before it
	t.Parallel()
	opened := 0
	lender := Lender[*sql.DB]{
		Open: func(ctx context.Context, dsn string) (*sql.DB, error) {
			opened++
			db, err := sql.Open("postgres", dsn)
			if err != nil {
				return nil, err
			}
			_, err = db.ExecContext(ctx, `INSERT INTO users (id, email, name) VALUES ('usr_first', 'first@example.com', 'first')`)
			return db, err
		},
		Check: func(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) },
		Close: func(db *sql.DB) error { return db.Close() },
	}
	exec := func(statement string) func(*testing.T, *Lent[*sql.DB]) {
		return func(t *testing.T, lent *Lent[*sql.DB]) {
			t.Helper()
			if _, err := lent.Opened.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}

	before := ""
	for _, tt := range []struct {
		name  string
		use   func(*testing.T, *Lent[*sql.DB])
		again bool // whether the next test gets the same database
	}{
		{"nothing", func(*testing.T, *Lent[*sql.DB]) {}, true},
		{"rows", exec(`INSERT INTO organizations (id, name) VALUES ('org_test', 'test')`), true},
		{"another first row", exec(`INSERT INTO users (id, email, name) VALUES ('usr_test', 'test@example.com', 'test')`), false},
		{"a changed first row", exec(`UPDATE users SET name = 'changed'`), false},
		{"a trigger", exec(`CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
			CREATE TRIGGER t BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION f()`), false},
		{"a column", exec(`ALTER TABLE users ADD COLUMN more int`), false},
		{"a full table", exec(`INSERT INTO organizations (id, name)
			SELECT 'org_' || n, repeat(md5(n::text), 30) FROM generate_series(1, 50000) n`), false},
		{"closed connections", func(t *testing.T, lent *Lent[*sql.DB]) {
			t.Helper()
			if err := lent.Opened.Close(); err != nil {
				t.Error(err)
			}
		}, false},
		{"an open transaction", func(t *testing.T, lent *Lent[*sql.DB]) {
			t.Helper()
			tx, err := lent.Opened.BeginTx(context.WithoutCancel(t.Context()), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), `SELECT 1`); err != nil {
				t.Error(err)
			}
		}, false},
		{"discarded", func(_ *testing.T, lent *Lent[*sql.DB]) { lent.Discard() }, false},
		{"last", func(*testing.T, *Lent[*sql.DB]) {}, false},
	} {
		expected := opened
		if before == "" {
			expected++
		}
		t.Run(tt.name, func(t *testing.T) {
			lent := lender.Lend(t)
			if opened != expected || before != "" && lent.DSN != before {
				t.Errorf("database %s after %q, %d databases opened, want %d", lent.DSN, before, opened, expected)
			}
			var users, organizations int
			err := lent.Opened.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM organizations)`).
				Scan(&users, &organizations)
			if err != nil || users != 1 || organizations != 0 {
				t.Errorf("%d users and %d organizations: %v", users, organizations, err)
			}
			if before = ""; tt.again {
				before = lent.DSN
			}
			tt.use(t, lent)
		})
	}
}

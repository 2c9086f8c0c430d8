package httpapi

import "database/sql"

// exec runs a statement as a superuser, without row-level security.
func (w *testEnv) exec(query string, args ...any) {
	w.t.Helper()
	db, err := sql.Open("postgres", w.dsn)
	must(w.t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(w.t.Context(), query, args...)
	must(w.t, err)
}

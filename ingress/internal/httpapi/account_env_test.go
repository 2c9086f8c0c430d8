package httpapi

// exec runs a statement as a superuser, without row-level security.
func (w *testEnv) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.sql.ExecContext(w.t.Context(), query, args...)
	must(w.t, err)
}

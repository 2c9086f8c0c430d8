package store_test

import (
	"testing"

	"parley/shared/testkit"
)

// An email address, ignoring case, belongs to at most one account. Any number of other accounts may
// have lost the address.
func TestOneAccountHoldsAnAddress(t *testing.T) {
	t.Parallel()
	db := testkit.SQL(t, testkit.Postgres(t))
	mustExec(t, db, `INSERT INTO users (id, email, name) VALUES ('usr_1', 'ada@example.com', ''), ('usr_2', 'bob@example.com', '')`)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO users (id, email, name) VALUES ('usr_3', 'ADA@example.com', '')`); err == nil {
		t.Error("two accounts hold one address")
	}
	mustExec(t, db, `UPDATE users SET displaced_at = clock_timestamp() WHERE id = 'usr_1'`)
	mustExec(t, db, `INSERT INTO users (id, email, name) VALUES ('usr_3', 'ADA@example.com', '')`)
}

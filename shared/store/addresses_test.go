package store_test

import (
	"testing"

	"parley/migrations"
)

// TestAddressesThatProvidersVerifiedAreProven: an upgrade keeps what is known of addresses, and nothing more.
func TestAddressesThatProvidersVerifiedAreProven(t *testing.T) {
	t.Parallel()
	_, db := released(t)
	if err := migrations.To(t.Context(), db, 25); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		`INSERT INTO users (id, email, name) VALUES ('usr_1', 'Identity@example.com', ''), ('usr_2', 'password@example.com', ''), ('usr_3', 'owner@parley.local', '')`,
		`INSERT INTO identities (issuer, subject, user_id) VALUES ('i', 's', 'usr_1')`,
	} {
		mustExec(t, db, query)
	}
	for range 2 { // a migration that was interrupted begins again
		mustExec(t, db, `DELETE FROM goose_db_version WHERE version_id = 26`)
		if err := migrations.To(t.Context(), db, 26); err != nil {
			t.Fatal(err)
		}
	}
	proven := texts(t, db, `SELECT id FROM users WHERE email_proven_at IS NOT NULL AND displaced_at IS NULL ORDER BY id`)
	if len(proven) != 2 || proven[0] != "usr_1" || proven[1] != "usr_3" {
		t.Errorf("proven are %v", proven)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO users (id, email, name) VALUES ('usr_4', 'PASSWORD@example.com', '')`); err == nil {
		t.Error("two accounts hold one address")
	}
	mustExec(t, db, `UPDATE users SET displaced_at = clock_timestamp() WHERE id = 'usr_2'`)
	mustExec(t, db, `INSERT INTO users (id, email, name) VALUES ('usr_4', 'PASSWORD@example.com', '')`)
}

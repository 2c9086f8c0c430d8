package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
)

// Tx runs f in a READ COMMITTED transaction. It runs f again if PostgreSQL aborted the
// transaction because of a deadlock.
func (db *DB) Tx(ctx context.Context, f func(*sqlx.Tx) error) error {
	const tries = 5
	for n := 1; ; n++ {
		err := db.txOnce(ctx, f)
		if n == tries || !HasCode(err, "40P01", "40001") {
			return err
		}
	}
}

// txOnce runs f in a transaction, once.
func (db *DB) txOnce(ctx context.Context, f func(*sqlx.Tx) error) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning transaction: %w", err)
	}

	if err := f(tx); err != nil {
		_ = tx.Rollback() // err is the error to report; a failed rollback closes the connection
		return err
	}

	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return nil
}

// Within is like Tx, for rows of the given organizations. Row-level security restricts the
// transaction to their rows, whatever its statements select.
func (db *DB) Within(ctx context.Context, orgs []string, f func(*sqlx.Tx) error) error {
	return db.txAfter(ctx, `SET LOCAL parley.organizations = `+pq.QuoteLiteral(joinOrganizations(orgs)), f)
}

// WithinPage is like Within, for reading a page of an organization's rows in the order of an index.
// The planner treats row-level security as an additional condition. If there are many
// organizations, it expects few rows, and would read and sort all rows of the organization. The
// transaction's settings make PostgreSQL follow the index and stop after the page.
func (db *DB) WithinPage(ctx context.Context, org string, f func(*sqlx.Tx) error) error {
	return db.txAfter(ctx, `SELECT set_config('enable_sort', 'off', true), set_config('parley.organizations', `+
		pq.QuoteLiteral(joinOrganizations([]string{org}))+`, true)`, f)
}

// TxBriefly is like Tx, but waits for each lock for at most timeout. It is meant for batches.
func (db *DB) TxBriefly(ctx context.Context, timeout time.Duration, f func(*sqlx.Tx) error) error {
	return db.txAfter(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, timeout.Milliseconds()), f)
}

// WithinBriefly is like Within, but waits for each lock for at most timeout. It is meant for
// batches.
func (db *DB) WithinBriefly(ctx context.Context, orgs []string, timeout time.Duration, f func(*sqlx.Tx) error) error {
	return db.txAfter(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d; SET LOCAL parley.organizations = %s`,
		timeout.Milliseconds(), pq.QuoteLiteral(joinOrganizations(orgs))), f)
}

// WithinUser is like Within, for rows of an organization and for rows of a user that belong to no
// organization. Either id may be empty.
func (db *DB) WithinUser(ctx context.Context, org, userID string, f func(*sqlx.Tx) error) error {
	var orgs []string
	if org != "" {
		orgs = []string{org}
	}
	return db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		// The setting is local to the transaction, so that it does not apply to later transactions
		// on the connection.
		if _, err := tx.ExecContext(ctx, `SELECT set_config('parley.user', $1, true)`, userID); err != nil {
			return fmt.Errorf("naming user: %w", err)
		}
		return f(tx)
	})
}

// WithinPrepared is like Within, for a single statement that is executed often. The statement is
// planned once per connection.
func (db *DB) WithinPrepared(ctx context.Context, org, query string, f func(*sqlx.Stmt) error) error {
	stmt, err := db.Prepared(ctx, query)
	if err != nil {
		return err
	}
	return db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error { return f(tx.StmtxContext(ctx, stmt)) })
}

// txAfter is like Tx, but first executes the statements in settings, which set parameters of the
// transaction.
func (db *DB) txAfter(ctx context.Context, settings string, f func(*sqlx.Tx) error) error {
	return db.Tx(ctx, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, settings); err != nil {
			return fmt.Errorf("setting up transaction: %w", err)
		}
		return f(tx)
	})
}

// ActFor replaces the organizations for which the transaction acts. It is meant for transactions
// that learn the organization from a row that they have read.
func ActFor(ctx context.Context, tx *sqlx.Tx, orgs ...string) error {
	if _, err := tx.ExecContext(ctx, `SELECT parley_act_for($1)`, pq.Array(orgs)); err != nil {
		return fmt.Errorf("naming organizations: %w", err)
	}
	return nil
}

// joinOrganizations joins ids for the schema's parley_organizations(). It drops values with a
// comma, which are not ids and would be parsed as several values.
func joinOrganizations(orgs []string) string {
	ids := slices.DeleteFunc(slices.Clone(orgs), func(org string) bool { return strings.Contains(org, ",") })
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), ",")
}

// AdvisoryLock takes the lock with the given name, which the transaction keeps until it ends. It
// waits while another transaction has the lock.
func AdvisoryLock(ctx context.Context, tx *sqlx.Tx, name string) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, name)
	return err
}

// CheckQuota returns a conflict error if the number that the query count returns is at least
// maximum. The format exceeded is the message. A maximum of 0 means no limit. The caller must hold a
// lock that prevents concurrent creation.
func CheckQuota(ctx context.Context, tx *sqlx.Tx, maximum int, exceeded, count string, args ...any) error {
	if maximum == 0 {
		return nil
	}
	var n int
	if err := tx.GetContext(ctx, &n, count, args...); err != nil {
		return fmt.Errorf("checking a quota: %w", err)
	}
	// The message of a quota that is a setting contains the setting's name, because only the
	// operator can raise the quota.
	if n >= maximum {
		return apierr.New(apierr.Conflict, exceeded, maximum)
	}
	return nil
}

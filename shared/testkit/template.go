package testkit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lib/pq"

	"parley/migrations"
)

// templateLock is the lock that prevents test processes on a shared server from creating the
// template or the roles concurrently.
const templateLock = 0x7061726c // "parl"

// makeTemplate creates the migrated database that is copied for each test. On a shared server, the
// database is kept for later test processes with the same migrations.
func (d *databases) makeTemplate(ctx context.Context) (err error) {
	version, err := migrations.Digest()
	if err != nil {
		return err
	}

	d.template = "parley_template_" + version
	conn, err := d.admin.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}

	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", templateLock); err != nil {
		return fmt.Errorf("locking template: %w", err)
	}

	defer func() {
		_, unlockErr := conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", templateLock)
		err = errors.Join(err, unlockErr)
	}()
	var exists bool
	if err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", d.template).Scan(&exists); err != nil {
		return fmt.Errorf("looking for template: %w", err)
	}

	if exists {
		return nil
	}

	return d.migrate(ctx, conn)
}

// migrate creates the template under a temporary name and renames it after the migration, so that
// an existing template is always complete.
func (d *databases) migrate(ctx context.Context, conn *sql.Conn) error {
	draft := d.template + "_draft"
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + pq.QuoteIdentifier(draft) + " WITH (FORCE)",
		"CREATE DATABASE " + pq.QuoteIdentifier(draft),
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("preparing template: %w", err)
		}
	}

	if err := migrateDatabase(ctx, d.dsn(draft)); err != nil {
		return err
	}

	rename := fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", pq.QuoteIdentifier(draft), pq.QuoteIdentifier(d.template))
	if _, err := conn.ExecContext(ctx, rename); err != nil {
		return fmt.Errorf("naming template: %w", err)
	}

	return nil
}

// migrateDatabase migrates a database to the newest schema.
func migrateDatabase(ctx context.Context, dsn string) (err error) {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return fmt.Errorf("opening database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return migrations.Up(ctx, db)
}

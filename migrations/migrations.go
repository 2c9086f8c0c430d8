// Package migrations contains the schema of Parley's PostgreSQL database and applies it. Goose
// applies each numbered file once. functions/ has one file per function, which is applied again
// whenever it changes. Binaries of the previous release may still be running and must be able to
// use the new schema. CONTRIBUTING.md describes how to change the schema.
//
// Up is called by `parley migrate`, by `parley up` and by tests. Up must connect as the owner of
// the database; the service itself connects with fewer privileges. The table goose_db_version
// records the numbered files that were applied. The table function_files records the functions that
// were applied, with the digests of their texts.
//
// Migrations run while the service uses the database. If a file cannot lock a table within its
// lock_timeout, the file is therefore applied again, for up to three minutes in total. Every file
// can be repeated after an interruption. There is no way back to an earlier schema.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql functions/*.sql
var files embed.FS

// errOldSchema is returned for a database with the numbered migrations that 0001_schema.sql
// replaced. Its text says how to continue.
var errOldSchema = errors.New("the database has the schema of a development version before 0.3.0, which cannot be upgraded; " +
	"start with a new, empty database")

// Up migrates the database to the newest schema. Processes that start concurrently wait for each
// other with an advisory lock. If the service's own statements prevent a migration from locking a
// table, Up retries it for a few minutes. Up is idempotent. The errors are errOldSchema, the last
// error of a migration, and the cause of ctx. Files that were applied before an error stay applied.
func Up(ctx context.Context, db *sql.DB) error { return UpFrom(ctx, db, files) }

// UpFrom migrates like Up, but with the files of another release. The argument files is the
// directory migrations of that release's sources. The upgrade test uses UpFrom.
func UpFrom(ctx context.Context, db *sql.DB, files fs.FS) error {
	functions, err := readFunctions(files)
	if err != nil {
		return err
	}
	provider, err := newProvider(db, files)
	if err != nil {
		return err
	}

	// Refuse an old schema before anything is written, so that the database stays usable.
	if err := refuseOldSchema(ctx, db); err != nil {
		return err
	}
	if err := refuseOtherLogins(ctx, db); err != nil {
		return err
	}

	sources := provider.ListSources()
	newest := sources[len(sources)-1].Version

	// The functions come last, because they may use new tables and columns.
	for _, step := range []func() error{
		func() error { _, err := provider.Up(ctx); return err },
		func() error { return applyFunctions(ctx, db, functions, newest) },
	} {
		if err := persist(ctx, tries, sleep, step); err != nil {
			return fmt.Errorf("migrating: %w", err)
		}
	}
	return nil
}

// Digest returns a digest of the names and contents of all files: 16 hexadecimal digits. Test
// environments with the same digest can share a database template.
func Digest() (string, error) { return digestFiles(files) }

// digestFiles returns the digest of the given files; see Digest. The files are read in the order of
// their paths.
func digestFiles(files fs.FS) (string, error) {
	digest := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}

		fmt.Fprintln(digest, path, len(content))
		digest.Write(content)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("reading migrations: %w", err)
	}

	return hex.EncodeToString(digest.Sum(nil)[:8]), nil
}

// newProvider returns a goose provider for the files. Its session lock makes concurrent processes
// wait for each other.
func newProvider(db *sql.DB, files fs.FS) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, fmt.Errorf("preparing migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return nil, fmt.Errorf("reading migrations: %w", err)
	}
	return provider, nil
}

// refuseOldSchema returns errOldSchema if the database has tables of Parley but no function_files.
// Both are created in the same transaction. A database without either is new, and is accepted.
func refuseOldSchema(ctx context.Context, db *sql.DB) error {
	var old bool
	err := db.QueryRowContext(ctx,
		`SELECT to_regclass('public.organizations') IS NOT NULL AND to_regclass('public.function_files') IS NULL`).Scan(&old)
	if err != nil {
		return fmt.Errorf("checking for an old schema: %w", err)
	}
	if old {
		return errOldSchema
	}
	return nil
}

// refuseOtherLogins returns an error if the login does not own the tables of a migrated database.
// The error names the owner.
func refuseOtherLogins(ctx context.Context, db *sql.DB) error {
	var login, owner string
	err := db.QueryRowContext(ctx, `SELECT current_user, pg_get_userbyid(relowner) FROM pg_class
		WHERE oid = to_regclass('public.function_files') AND NOT pg_has_role(relowner, 'USAGE')`).Scan(&login, &owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("checking the owner of the tables: %w", err)
	}
	return fmt.Errorf("%s may not migrate the database, because %s owns its tables; set DATABASE_URL to the URL of the owner", login, owner)
}

// sleep waits for the duration d. If ctx ends earlier, it returns the context's cause. Tests of
// persist can replace sleep.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting before the next migration attempt: %w", context.Cause(ctx))
	}
}

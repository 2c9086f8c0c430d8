// Package migrations holds the schema of Parley's PostgreSQL database and applies it: numbered
// files, which goose applies once each, and functions/, a file for each function, which is
// applied again whenever it has changed. Both work while the binaries of the release before
// still run. CONTRIBUTING.md says how to change them.
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

// errOldSchema is returned for a database with the numbered migrations that 0001_schema.sql replaced.
var errOldSchema = errors.New("the database has the schema of a development version before 0.3.0, which cannot be upgraded; " +
	"start with a new, empty database")

// Up brings the database to the newest schema. Processes that start together wait for
// each other by an advisory lock. If the service's own statements keep a migration from a
// table, it is tried again for a few minutes.
func Up(ctx context.Context, db *sql.DB) error { return UpFrom(ctx, db, files) }

// UpFrom is Up with the files of another release: the directory migrations of its sources.
func UpFrom(ctx context.Context, db *sql.DB, files fs.FS) error {
	functions, err := readFunctions(files)
	if err != nil {
		return err
	}
	provider, err := newProvider(db, files)
	if err != nil {
		return err
	}
	if err := refuseOldSchema(ctx, db); err != nil {
		return err
	}

	sources := provider.ListSources()
	newest := sources[len(sources)-1].Version
	for _, step := range []func() error{
		func() error { _, err := provider.Up(ctx); return err },
		func() error { return applyFunctions(ctx, db, functions, newest) },
	} {
		if err := persist(ctx, tries, pause, step); err != nil {
			return fmt.Errorf("migrating: %w", err)
		}
	}
	return nil
}

// Digest is of all files, their names and contents: 16 hexadecimal digits.
func Digest() (string, error) { return digestFiles(files) }

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

// refuseOldSchema returns an error if the database has tables of Parley without function_files. The
// transaction that creates the first table creates that one, too.
func refuseOldSchema(ctx context.Context, db *sql.DB) error {
	var old bool
	err := db.QueryRowContext(ctx,
		`SELECT to_regclass('public.organizations') IS NOT NULL AND to_regclass('public.function_files') IS NULL`).Scan(&old)
	if err != nil {
		return fmt.Errorf("looking for the schema: %w", err)
	}
	if old {
		return errOldSchema
	}
	return nil
}

// pause lets those through who queued up behind a lock that was waited for.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for tables: %w", context.Cause(ctx))
	case <-time.After(time.Second):
		return nil
	}
}

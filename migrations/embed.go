// Package migrations holds the schema of Parley's PostgreSQL database as numbered SQL
// files, and applies them. Each file works while the binaries before it still run.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// Up brings the database to the newest schema. Processes that start together wait for
// each other by an advisory lock. Where the service's own statements keep the migrations
// from a table, they are tried again for a few minutes.
func Up(ctx context.Context, db *sql.DB) error {
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	err = persist(ctx, tries, pause, func() error {
		_, err := provider.Up(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	return nil
}

// To is Up to the schema of an earlier release, from one before it.
func To(ctx context.Context, db *sql.DB, version int64) error {
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	if _, err := provider.UpTo(ctx, version); err != nil {
		return fmt.Errorf("migrating to version %d: %w", version, err)
	}
	return nil
}

// Digest is of all files, their names and contents: 16 hexadecimal digits.
func Digest() (string, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return "", fmt.Errorf("listing migrations: %w", err)
	}
	digest := sha256.New()
	for _, entry := range entries {
		content, err := files.ReadFile(entry.Name())
		if err != nil {
			return "", fmt.Errorf("reading migration: %w", err)
		}
		fmt.Fprintln(digest, entry.Name(), len(content))
		digest.Write(content)
	}
	return hex.EncodeToString(digest.Sum(nil)[:8]), nil
}

func newProvider(db *sql.DB) (*goose.Provider, error) {
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

// pause lets those through who queued up behind a lock that was waited for.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for tables: %w", context.Cause(ctx))
	case <-time.After(time.Second):
		return nil
	}
}

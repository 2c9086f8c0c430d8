package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pressly/goose/v3/lock"
)

// functionFile is a file of functions/. The field triggers contains the statements that create the
// function's triggers; it may be empty. These are applied only if their text has changed, because
// creating a trigger locks the trigger's table.
type functionFile struct {
	// Name of the file without .sql, which is the name of the function.
	name               string
	function, triggers string
}

// triggerStart is the text with which the first trigger in a file begins. A file may have several
// triggers, which follow the function.
const triggerStart = "\nCREATE OR REPLACE TRIGGER "

// readFunctions returns the files in functions/, sorted by name. It does not check the contents;
// PostgreSQL checks them when they are applied.
func readFunctions(files fs.FS) ([]functionFile, error) {
	names, err := fs.Glob(files, "functions/*.sql")
	if err != nil {
		return nil, fmt.Errorf("listing functions: %w", err)
	}

	functions := make([]functionFile, 0, len(names))
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading function: %w", err)
		}
		f := functionFile{name: strings.TrimSuffix(path.Base(name), ".sql"), function: string(content)}

		if at := strings.Index(f.function, triggerStart); at >= 0 {
			f.function, f.triggers = f.function[:at], f.function[at:]
		}
		functions = append(functions, f)
	}

	return functions, nil
}

// appliedFunction is a row of function_files. Its fields are the digests of the texts that were
// applied last; see digests. The zero value means that the function was never applied.
type appliedFunction struct{ function, triggers string }

// applyFunctions creates or replaces the functions that differ from those in the database, all of
// them or none of them. It does nothing if the schema is newer than the newest version in this
// release: binaries of a later release may be running and need their own functions. Concurrent
// calls wait for each other, and for migrations, with the advisory lock of goose. applyFunctions
// returns errors of the database; isBusy recognizes the errors after which a retry may succeed.
func applyFunctions(ctx context.Context, db *sql.DB, functions []functionFile, newest int64) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	defer func() {
		if rollbackErr := tx.Rollback(); !errors.Is(rollbackErr, sql.ErrTxDone) {
			err = errors.Join(err, rollbackErr)
		}
	}()

	var version int64

	// Take the lock first: the version must not change while the functions are applied.
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lock.DefaultLockID); err != nil {
		return fmt.Errorf("waiting for other migrations: %w", err)
	}

	if err := tx.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`).Scan(&version); err != nil {
		return fmt.Errorf("reading version: %w", err)
	}

	if version > newest {
		return nil
	}

	if err := applyChanged(ctx, tx, functions); err != nil {
		return err
	}

	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing functions: %w", err)
	}
	return nil
}

// applyChanged applies, within tx, the files whose digests differ from the recorded digests. It
// drops no function: it only removes the records of files that no longer exist.
func applyChanged(ctx context.Context, tx *sql.Tx, functions []functionFile) error {
	applied, err := appliedFunctions(ctx, tx)
	if err != nil {
		return err
	}

	changed := slices.DeleteFunc(slices.Clone(functions), func(f functionFile) bool { return applied[f.name] == f.digests() })

	for name := range applied {
		if slices.ContainsFunc(functions, func(f functionFile) bool { return f.name == name }) {
			continue
		}
		// The file was removed in this release; a migration drops the function.
		if _, err := tx.ExecContext(ctx, `DELETE FROM function_files WHERE name = $1`, name); err != nil {
			return fmt.Errorf("removing the record of function %s: %w", name, err)
		}
	}
	if len(changed) == 0 {
		return nil
	}

	// While this transaction waits for a lock on a table, statements of the service that need the
	// table queue up. The lock timeout is therefore short. The owner of a function needs the
	// privilege to create it.
	const begin = `SET LOCAL lock_timeout = '2s'; GRANT CREATE ON SCHEMA public TO parley_system`
	if _, err := tx.ExecContext(ctx, begin); err != nil {
		return fmt.Errorf("preparing functions: %w", err)
	}
	for _, f := range changed {
		if err := f.apply(ctx, tx, applied[f.name]); err != nil {
			return fmt.Errorf("function %s: %w", f.name, err)
		}
	}
	if _, err := tx.ExecContext(ctx, `REVOKE CREATE ON SCHEMA public FROM parley_system`); err != nil {
		return fmt.Errorf("finishing functions: %w", err)
	}
	return nil
}

// appliedFunctions returns the rows of function_files. The key of the map is the name of the file.
func appliedFunctions(ctx context.Context, tx *sql.Tx) (applied map[string]appliedFunction, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT name, function_digest, trigger_digest FROM function_files`)
	if err != nil {
		return nil, fmt.Errorf("reading applied functions: %w", err)
	}

	defer func() { err = errors.Join(err, rows.Close()) }()
	applied = map[string]appliedFunction{}
	for rows.Next() {
		var name string
		var a appliedFunction
		if err := rows.Scan(&name, &a.function, &a.triggers); err != nil {
			return nil, fmt.Errorf("reading applied function: %w", err)
		}
		applied[name] = a
	}

	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading applied functions: %w", err)
	}

	return applied, nil
}

// apply creates or replaces the function, and its triggers if they have changed, and records the
// digests. The argument applied is the file's row of function_files. If the triggers are unchanged,
// no table is locked.
func (f functionFile) apply(ctx context.Context, tx *sql.Tx, applied appliedFunction) error {
	if _, err := tx.ExecContext(ctx, f.function); err != nil {
		return fmt.Errorf("creating: %w", err)
	}

	digests := f.digests()
	if digests.triggers != applied.triggers && f.triggers != "" {
		if _, err := tx.ExecContext(ctx, f.triggers); err != nil {
			return fmt.Errorf("creating triggers: %w", err)
		}
	}

	// The record is written in the same transaction, so it always describes the functions in the
	// database.
	_, err := tx.ExecContext(ctx, `INSERT INTO function_files (name, function_digest, trigger_digest) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET function_digest = excluded.function_digest, trigger_digest = excluded.trigger_digest`,
		f.name, digests.function, digests.triggers)
	if err != nil {
		return fmt.Errorf("noting: %w", err)
	}

	return nil
}

// digests returns the digests of the file's texts. A change of a comment changes them too.
func (f functionFile) digests() appliedFunction {
	return appliedFunction{function: digestFor(f.function), triggers: digestFor(f.triggers)}
}

// digestFor returns the SHA-256 of a text in hexadecimal.
func digestFor(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"parley/migrations"
	"parley/shared/store"
	"parley/shared/testkit"
)

// inSchemaFile lists the functions that 0001_schema.sql defines, because policies and indexes need
// them.
var inSchemaFile = []string{
	"parley_organizations", "parley_user", "sealed_bytes_keys", "sealed_config_keys", "sealed_text_keys", "sealed_tools_keys",
}

// emptyDatabase returns the address of an empty database. The owner of the database has no
// privileges on any other database.
func emptyDatabase(t *testing.T) (dsn string, db *sql.DB) {
	t.Helper()
	superDSN := testkit.Postgres(t)
	super := testkit.SQL(t, superDSN)
	owner, password := login(t, super, " IN ROLE parley_app, parley_system")
	mustExec(t, super, `CREATE DATABASE `+owner+` OWNER `+owner)
	t.Cleanup(func() {
		_, _ = super.ExecContext(context.WithoutCancel(t.Context()), `DROP DATABASE `+owner+` WITH (FORCE)`)
	}) // the test has ended
	mustExec(t, testkit.SQL(t, withPath(t, superDSN, owner)), `GRANT USAGE, CREATE ON SCHEMA public TO `+owner+` WITH GRANT OPTION`)
	dsn = loginAs(t, superDSN, owner, owner, password)
	return dsn, testkit.SQL(t, dsn)
}

// releaseFiles returns a modifiable copy of the files of package migrations.
func releaseFiles(t *testing.T) fstest.MapFS {
	t.Helper()
	dir := os.DirFS(filepath.Join(testkit.Root(t), "migrations"))
	files := fstest.MapFS{}
	for _, pattern := range []string{"*.sql", "functions/*.sql"} {
		names, err := fs.Glob(dir, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			content, err := fs.ReadFile(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = &fstest.MapFile{Data: content}
		}
	}
	return files
}

// replaced returns a copy of the files in which a text in one function's file is replaced.
func replaced(t *testing.T, files fstest.MapFS, function, old, with string) fstest.MapFS {
	t.Helper()
	name := "functions/" + function + ".sql"
	before := string(files[name].Data)
	after := strings.Replace(before, old, with, 1)
	if after == before {
		t.Fatalf("%s has no %q", name, old)
	}
	changed := maps.Clone(files)
	changed[name] = &fstest.MapFile{Data: []byte(after)}
	return changed
}

func mustMigrate(t *testing.T, db *sql.DB, files fs.FS) {
	t.Helper()
	if err := migrations.UpFrom(t.Context(), db, files); err != nil {
		t.Fatal(err)
	}
}

const ownFunctions = ` FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
	AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')`

// A new database has exactly the functions that the functions' files and 0001_schema.sql define.
func TestAFreshDatabaseHasEveryFunction(t *testing.T) {
	t.Parallel()
	db := testkit.SQL(t, testkit.Postgres(t))
	files := releaseFiles(t)
	want := slices.Clone(inSchemaFile)
	for name := range files {
		if function, found := strings.CutPrefix(name, "functions/"); found {
			want = append(want, strings.TrimSuffix(function, ".sql"))
		}
	}
	slices.Sort(want)
	if got := texts(t, db, `SELECT p.proname`+ownFunctions+` ORDER BY p.proname COLLATE "C"`); !slices.Equal(got, want) {
		t.Errorf("functions:\n%v\nwant\n%v", got, want)
	}
	if noted := texts(t, db, `SELECT name FROM function_files`); len(noted) != len(want)-len(inSchemaFile) {
		t.Errorf("%d functions are noted", len(noted))
	}
}

// written returns the catalog rows of functions and triggers, each with the
// transaction that wrote it.
func written(t *testing.T, db *sql.DB) (rows []string) {
	t.Helper()
	return slices.Concat(texts(t, db, `SELECT 'function ' || p.proname || ' ' || p.xmin`+ownFunctions),
		texts(t, db, `SELECT 'trigger ' || tgname || ' ' || xmin FROM pg_trigger WHERE NOT tgisinternal`))
}

// The next migration applies only the files of functions that have changed. It creates a trigger
// again only if the trigger itself has changed.
func TestOnlyChangedFilesAreApplied(t *testing.T) {
	t.Parallel()
	_, db := emptyDatabase(t)
	files := releaseFiles(t)
	mustMigrate(t, db, files)
	for _, c := range []struct {
		files fstest.MapFS
		want  string
	}{
		{files, ""},
		{replaced(t, files, "poison_runs", "o.deaths >= $1", "o.deaths > $1"), "function poison_runs"},
		{files, "function poison_runs"},
		{replaced(t, files, "runs_keep_summary", "RETURN NEW", "RETURN (NEW)"), "function runs_keep_summary"},
		{replaced(t, files, "runs_keep_summary", "> 65536", "> 65537"), "function runs_keep_summary trigger runs_keep_summary"},
		{files, "function runs_keep_summary trigger runs_keep_summary"},
	} {
		before := written(t, db)
		mustMigrate(t, db, c.files)
		var changed []string
		for _, row := range written(t, db) {
			if !slices.Contains(before, row) {
				changed = append(changed, row[:strings.LastIndex(row, " ")])
			}
		}
		slices.Sort(changed)
		if got := strings.Join(changed, " "); got != c.want {
			t.Errorf("applied %q, want %q", got, c.want)
		}
	}
}

// A function that a trigger calls is replaced without a lock on the trigger's table.
func TestReplacingATriggersFunctionLocksNoTable(t *testing.T) {
	t.Parallel()
	_, db := emptyDatabase(t)
	files := releaseFiles(t)
	mustMigrate(t, db, files)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing is committed
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE runs IN ROW EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), testkit.Within(10*time.Second))
	defer stop()
	if err := migrations.UpFrom(ctx, db, replaced(t, files, "runs_keep_summary", "RETURN NEW", "RETURN (NEW)")); err != nil {
		t.Error(err)
	}
}

// A binary of an older release does not replace newer functions.
func TestAnOlderReleaseLeavesNewerFunctionsAlone(t *testing.T) {
	t.Parallel()
	_, db := emptyDatabase(t)
	older := releaseFiles(t)
	newer := replaced(t, older, "poison_runs", "o.deaths >= $1", "o.deaths > $1")
	newer["9999_newer.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nSELECT 1;\n")}
	mustMigrate(t, db, newer)
	mustMigrate(t, db, older)
	if n := len(texts(t, db, `SELECT proname FROM pg_proc WHERE proname = 'poison_runs' AND prosrc LIKE '%o.deaths > $1%'`)); n != 1 {
		t.Error("the older release replaced the function")
	}
}

// If a function cannot be created, no other function is changed and no additional privilege
// remains. The next migration with correct files succeeds.
func TestFunctionsChangeTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	_, db := emptyDatabase(t)
	files := releaseFiles(t)
	mustMigrate(t, db, files)
	before := written(t, db)
	good := replaced(t, files, "write_progress", "AS $$\n", "AS $$ /* changed */\n")
	broken := replaced(t, good, "poison_runs", "RETURN QUERY", "RETURN QWERTY")
	if err := migrations.UpFrom(t.Context(), db, broken); err == nil || !strings.Contains(err.Error(), "function poison_runs") {
		t.Errorf("a broken function: %v", err)
	}
	if after := written(t, db); !slices.Equal(before, after) {
		t.Error("functions changed beside the broken one")
	}
	if may := texts(t, db, `SELECT 'CREATE' WHERE has_schema_privilege('parley_system', 'public', 'CREATE')`); len(may) > 0 {
		t.Error("parley_system may create in the schema")
	}
	mustMigrate(t, db, good)
	if n := len(texts(t, db, `SELECT proname FROM pg_proc WHERE prosrc LIKE '%/* changed */%'`)); n != 1 {
		t.Errorf("%d functions changed", n)
	}
}

// To change a function's arguments, its file drops the function with the old arguments. If a
// function's file is removed, the migration forgets the function. If the file is added again, the
// migration creates the function again.
func TestAFunctionChangesItsArgumentsAndGoes(t *testing.T) {
	t.Parallel()
	_, db := emptyDatabase(t)
	files := releaseFiles(t)
	mustMigrate(t, db, files)
	changed := replaced(t, files, "poison_runs", "CREATE OR REPLACE FUNCTION poison_runs(int, bigint)",
		"DROP FUNCTION IF EXISTS poison_runs(int, bigint);\nCREATE OR REPLACE FUNCTION poison_runs(int, bigint, text DEFAULT '')")
	mustMigrate(t, db, changed)
	const signatures = `SELECT oid::regprocedure::text || ' ' || proowner::regrole || ' ' ||
		has_function_privilege('parley_app', oid, 'EXECUTE') FROM pg_proc WHERE proname = 'poison_runs'`
	if got := texts(t, db, signatures); len(got) != 1 || got[0] != "poison_runs(integer,bigint,text) parley_system true" {
		t.Errorf("%q", got)
	}

	without := maps.Clone(files)
	delete(without, "functions/poison_runs.sql")
	without["9999_drop.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nDROP FUNCTION poison_runs;\n")}
	mustMigrate(t, db, without)
	if got := texts(t, db, signatures); len(got) != 0 {
		t.Errorf("%q stay", got)
	}
	again := maps.Clone(changed)
	again["9999_drop.sql"] = without["9999_drop.sql"]
	mustMigrate(t, db, again)
	if got := texts(t, db, signatures); len(got) != 1 {
		t.Errorf("%q come back", got)
	}
}

// A database with a schema that was created before 0.3.0 is rejected and stays unchanged.
func TestAnOldSchemaIsRefused(t *testing.T) {
	t.Parallel()
	_, db := emptyDatabase(t)
	mustExec(t, db, `CREATE TABLE organizations (id text PRIMARY KEY)`)
	err := migrations.Up(t.Context(), db)
	if err == nil || !strings.Contains(err.Error(), "before 0.3.0") || !strings.Contains(err.Error(), "start with a new, empty database") {
		t.Errorf("an old schema: %v", err)
	}
	if found := texts(t, db, `SELECT c.relname `+tables); len(found) != 1 {
		t.Errorf("tables %v", found)
	}
}

// A migration removes the titles that an earlier version stored with the texts of attachments. The
// texts of web pages keep their titles.
func TestTitlesOfAttachmentsAreRemoved(t *testing.T) {
	t.Parallel()
	_, db := emptyDatabase(t)
	files := releaseFiles(t)
	mustMigrate(t, db, files)
	mustExec(t, db, `INSERT INTO sources (org_id, hash, url, title, language, text, characters, truncated)
		SELECT 'org_' || n % 2, sha256(n::text::bytea), CASE WHEN n % 3 = 0 THEN 'https://example.com/' ELSE '' END, 'name', 'en', n, 1, false
		FROM generate_series(1, 9) n`)
	files["9999_again.sql"] = files["0028_attachment_titles.sql"]
	mustMigrate(t, db, files)
	got := texts(t, db, `SELECT text || ' ' || title FROM sources ORDER BY text`)
	if want := []string{"1 ", "2 ", "3 name", "4 ", "5 ", "6 name", "7 ", "8 ", "9 name"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A process that starts before the migration of its release reports that it is not ready.
func TestAnIncompleteSchemaIsNotEnough(t *testing.T) {
	t.Parallel()
	dsn, db := emptyDatabase(t)
	files := releaseFiles(t)
	incomplete := maps.Clone(files)
	delete(incomplete, "functions/accept_single_runs.sql")
	mustMigrate(t, db, incomplete)
	s, err := store.Open(dsn, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.CheckSchema(t.Context()); err == nil {
		t.Error("a schema without a function that accepts runs is enough")
	}
	mustMigrate(t, db, files)
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// While all functions are replaced, runs are accepted, claimed and finished: no statement fails or
// waits for a long time.
func TestFunctionsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	files := releaseFiles(t)
	for name, file := range files {
		if strings.HasPrefix(name, "functions/") {
			files[name] = &fstest.MapFile{Data: append([]byte("-- Changed.\n"), file.Data...)}
		}
	}
	const lives = 4
	envs := make([]*testEnv, lives)
	for n := range envs {
		envs[n] = newEnvOn(t, s, raw, fmt.Sprintf("user%d@example.com", n))
	}
	migrated := make(chan struct{})
	var slowest [lives]time.Duration
	var work sync.WaitGroup
	for n, b := range envs {
		work.Go(func() {
			for last := false; !last && !t.Failed(); {
				last = isClosed(migrated)
				began := time.Now()
				b.finish(b.mustClaim(b.accept(wideWindow, b.run("", "s"))[0].Run.Run.ID), "done")
				slowest[n] = max(slowest[n], time.Since(began))
			}
		})
	}
	err := migrations.UpFrom(t.Context(), raw, files)
	close(migrated)
	work.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if took := slices.Max(slowest[:]); took > testkit.Within(5*time.Second) {
		t.Errorf("a run took %v", took)
	}
	const together = ` AND p.xmin = (SELECT xmin FROM pg_proc WHERE proname = 'write_progress')`
	if n := len(texts(t, raw, `SELECT p.proname`+ownFunctions+together)); n < 80 {
		t.Errorf("%d functions were replaced", n)
	}
}

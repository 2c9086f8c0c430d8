package store_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"parley/shared/store"
	"parley/shared/testkit"
	"parley/shared/testsuite"
)

// pooled is an empty database with an open store, which tests use one after another. A new database
// costs more processor time than most tests, because every new connection of PostgreSQL loads
// the catalog and the functions again.
type pooled struct {
	owner  *testsuite.Owner
	s      *store.Store
	raw    *sql.DB
	schema string // fingerprint of the schema
}

// pool holds the databases that no test uses. A test that finds none creates one.
var pool = make(chan *pooled, 2*sideBySide)

// takePooled returns a database for a test. At the end of the test, the database is emptied and
// given to another test, unless the test has failed, has changed the schema or has closed the
// store. A test that configures the store uses newOwnEnv instead.
func takePooled(t *testing.T) *pooled {
	t.Helper()
	var p *pooled
	select {
	case p = <-pool:
	default:
		p = newPooled(t)
	}

	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if t.Failed() || !p.empty(ctx) {
			p.owner.Release()
			return
		}
		select {
		case pool <- p:
		default:
			p.owner.Release()
		}
	})
	return p
}

func newPooled(t *testing.T) *pooled {
	t.Helper()
	p := &pooled{owner: testsuite.NewOwner(t)}
	p.s, p.raw = openAt(p.owner, testkit.Postgres(p.owner))
	if err := p.raw.QueryRowContext(t.Context(), schemaQuery).Scan(&p.schema); err != nil {
		t.Fatal(err)
	}
	return p
}

// empty deletes all rows. It returns false if the database cannot be used again.
func (p *pooled) empty(ctx context.Context) bool {
	var schema string
	if _, err := p.raw.ExecContext(ctx, emptyQuery); err != nil {
		return false
	}
	if err := p.raw.QueryRowContext(ctx, schemaQuery).Scan(&schema); err != nil || schema != p.schema {
		return false
	}
	return p.s.Queue.AnnounceSlots(ctx, "worker", wideWindow, time.Hour) == nil
}

// emptyQuery truncates the tables that have rows, except the table of the migrations.
const emptyQuery = `DO $$
	DECLARE candidate text; filled boolean; tables text[];
	BEGIN
		SET LOCAL lock_timeout = '10s';
		FOR candidate IN SELECT oid::regclass::text FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname !~ '^goose' AND NOT relispartition
		LOOP
			EXECUTE format('SELECT EXISTS (SELECT FROM %s)', candidate) INTO filled;
			IF filled THEN tables := tables || candidate; END IF;
		END LOOP;
		IF tables IS NOT NULL THEN EXECUTE 'TRUNCATE ' || array_to_string(tables, ', ') || ' RESTART IDENTITY CASCADE'; END IF;
	END $$`

// schemaQuery returns a fingerprint of the schema and of the planner's statistics. It does not
// include columns of the catalog that TRUNCATE changes.
const schemaQuery = `SELECT concat_ws(' ',
	(SELECT sum(hashtextextended(concat_ws(' ', oid, xmin), 0)) FROM pg_proc WHERE oid >= 16384),
	(SELECT sum(hashtextextended(concat_ws(' ', oid, relname, relkind, relowner, relacl, relrowsecurity, relforcerowsecurity, reloptions), 0))
	   FROM pg_class WHERE oid >= 16384),
	(SELECT sum(hashtextextended(concat_ws(' ', attrelid, xmin), 0)) FROM pg_attribute WHERE attrelid >= 16384),
	(SELECT sum(hashtextextended(concat_ws(' ', oid, xmin), 0)) FROM pg_trigger),
	(SELECT sum(hashtextextended(concat_ws(' ', oid, xmin), 0)) FROM pg_policy),
	(SELECT sum(hashtextextended(concat_ws(' ', oid, xmin), 0)) FROM pg_constraint),
	(SELECT sum(hashtextextended(concat_ws(' ', oid, xmin), 0)) FROM pg_namespace),
	(SELECT count(*) FROM pg_statistic WHERE starelid >= 16384))`

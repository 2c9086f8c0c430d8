package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/migrations"
	"parley/shared/domain"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/rundb"
	"parley/shared/testkit"
)

// releasedSchema is the newest schema that a release had before row-level security.
const releasedSchema = 3

// released makes a database of that schema whose owner is nobody but its owner, and gives the owner's address.
func released(t *testing.T) (dsn string, db *sql.DB) {
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
	db = testkit.SQL(t, dsn)
	if err := migrations.To(t.Context(), db, releasedSchema); err != nil {
		t.Fatal(err)
	}
	return dsn, db
}

// fill puts rows of four organizations into a released schema: ended runs, a step each, five of them in a session.
func fill(t *testing.T, db *sql.DB, runs int) {
	t.Helper()
	for _, query := range []string{
		`INSERT INTO organizations (id, name) SELECT 'org_' || o, '' FROM generate_series(0, 3) o`,
		`INSERT INTO users (id, email, name) VALUES ('usr_0', 'a@example.com', 'a')`,
		`INSERT INTO memberships (org_id, user_id, role) SELECT 'org_' || o, 'usr_0', 'owner' FROM generate_series(0, 3) o`,
		`INSERT INTO agents (id, org_id, name, description, system_prompt, model, tools, allowed_callers, widget, version)
			SELECT 'agt_' || o, 'org_' || o, '', '', '', '', '[]', '{api}', '{}', 1 FROM generate_series(0, 3) o`,
		`INSERT INTO agent_configs SELECT id, 1, '{}' FROM (SELECT id FROM agents UNION ALL SELECT 'tpl_0') targets`,
		`INSERT INTO sessions (key, org_id, target_id, principal, session_id, last_seq)
			SELECT sha256(n::text::bytea), 'org_' || n % 4, 'agt_' || n % 4, 'usr_0', 's' || n, 5 FROM generate_series(0, ` +
			fmt.Sprint(runs/5-1) + `) n ORDER BY n`,
		`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type,
			input, retention, sweep_after, created_at, status, result, answer)
			SELECT 'run_' || s.ref || '_' || q, s.org_id, s.target_id, 1, s.ref, q, s.session_id, s.principal, 'api', 'api', '{}', 60,
			s.created_at, now(), 'completed', '{}', 'a' FROM sessions s, generate_series(1, 5) q`,
		`INSERT INTO steps (run_id, n, fence, step) SELECT id, 1, 1, '{}' FROM runs`,
		`INSERT INTO steps (run_id, n, fence, step) SELECT 'gone_' || n, 1, 1, '{}' FROM generate_series(1, 3000) n`,
		`INSERT INTO login_sessions (token_hash, user_id, expires_at)
			SELECT sha256(id::bytea), 'usr_0', now() + interval '1 hour' FROM runs WHERE seq = 1`,
		`INSERT INTO api_keys (id, scope, user_id, name, secret_hash, last_four) VALUES ('key_0', 'user', 'usr_0', '', '', '')`,
		`ANALYZE`,
	} {
		mustExec(t, db, query)
	}
}

// What a binary of the released schema does with one run, in the order of its life: the tables that each statement
// takes, and the order in which it takes them, are the released ones.
var releasedLife = []string{
	`WITH batch AS MATERIALIZED (SELECT $1::text AS id, $2::text AS org_id, $3::text AS agent_id), eligible AS MATERIALIZED (
	  SELECT b.*, coalesce(a.version, t.version) AS config_version FROM batch b
	  LEFT JOIN agents a ON a.id = b.agent_id AND a.org_id = b.org_id AND a.deleted_at IS NULL LEFT JOIN templates t ON t.id = ''
	  WHERE (NOT EXISTS (SELECT 1 FROM runs k WHERE k.idempotency_hash = sha256(b.id::bytea))) IS NOT FALSE
	), session AS (
	  INSERT INTO sessions AS s (key, org_id, target_id, principal, session_id, last_seq)
	  SELECT sha256(org_id::bytea), org_id, agent_id, 'usr_0', 'live', 1 FROM eligible
	  ON CONFLICT (key) DO UPDATE SET last_seq = s.last_seq + excluded.last_seq RETURNING s.ref, s.last_seq
	), inserted AS (
	  INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type,
	    idempotency_hash, input, retention, sweep_after, created_at)
	  SELECT id, org_id, agent_id, config_version, ref, last_seq, 'live', 'usr_0', 'api', 'api', sha256(id::bytea), '{}', 60,
	    now() + interval '1 hour', now() FROM eligible, session
	  ON CONFLICT (idempotency_hash) WHERE idempotency_hash IS NOT NULL DO NOTHING RETURNING id, org_id, agent_id, session_ref, seq
	)
	INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dedupe, reply_to, traceparent, deadline)
	SELECT id, org_id, agent_id, session_ref, seq, 'chat', 'queued', true, 1, '', '', '', now() + interval '1 hour' FROM inserted`,
	`WITH want AS (SELECT run_id FROM open_runs WHERE run_id = $1 AND org_id = $2 AND agent_id = $3 ORDER BY run_id FOR UPDATE), claimed AS (
	  UPDATE open_runs o SET status = 'running', fence = o.fence + 1, attempts = o.attempts + 1, started_at = clock_timestamp()
	  FROM want WHERE o.run_id = want.run_id AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref AND p.seq < o.seq)
	  RETURNING o.*
	) SELECT r.input FROM claimed c JOIN runs r ON r.id = c.run_id LEFT JOIN agents a ON a.id = c.agent_id AND a.org_id = c.org_id`,
	`WITH mine AS (SELECT run_id FROM open_runs WHERE run_id = $1 AND org_id = $2 AND agent_id = $3 AND fence = 1 AND status = 'running' FOR SHARE)
	INSERT INTO steps (run_id, n, fence, step) SELECT mine.run_id, 1, 1, '{}' FROM mine`,
	`WITH mine AS (SELECT run_id FROM open_runs WHERE run_id = $1 AND org_id = $2 AND agent_id = $3 AND fence = 1 ORDER BY run_id FOR UPDATE), closed AS (
	  DELETE FROM open_runs o USING mine WHERE o.run_id = mine.run_id RETURNING o.run_id
	) UPDATE runs r SET status = 'completed', result = '{}', answer = 'a', finished_at = now() FROM closed c WHERE r.id = c.run_id`,
}

// What it does in transactions of several statements: changing an agent, removing runs that have expired, signing
// people up, logging them in by a link, and using keys.
var (
	releasedEdit = []string{
		`UPDATE agents SET version = version + 1 WHERE id = 'agt_0'`,
		`INSERT INTO agent_configs (target_id, version, config) SELECT id, version, '{}' FROM agents WHERE id = 'agt_0'`,
	}
	releasedSweep = []string{
		`CREATE TEMP TABLE due ON COMMIT DROP AS SELECT id, session_ref FROM runs
			WHERE sweep_after <= now() ORDER BY sweep_after LIMIT 50 FOR UPDATE SKIP LOCKED`,
		`DELETE FROM steps WHERE run_id = ANY (SELECT id FROM due)`,
		`DELETE FROM runs WHERE id = ANY (SELECT id FROM due)`,
		`SELECT 1 FROM sessions WHERE ref = ANY (SELECT session_ref FROM due) ORDER BY ref FOR UPDATE`,
		`DELETE FROM sessions s WHERE s.ref = ANY (SELECT session_ref FROM due) AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.session_ref = s.ref)`,
	}
	releasedSignUp = []string{
		`CREATE TEMP TABLE me ON COMMIT DROP AS SELECT gen_random_uuid()::text AS id`,
		`INSERT INTO users (id, email, name) SELECT 'usr_' || id, id || '@example.com', '' FROM me`,
		`INSERT INTO organizations (id, name) SELECT 'org_' || id, '' FROM me`,
		`INSERT INTO memberships (org_id, user_id, role) SELECT 'org_' || id, 'usr_' || id, 'owner' FROM me`,
		`INSERT INTO login_sessions (token_hash, user_id, expires_at) SELECT sha256(id::bytea), 'usr_' || id, now() FROM me`,
		`SELECT m.role FROM login_sessions l LEFT JOIN memberships m ON m.user_id = l.user_id WHERE l.token_hash = (SELECT sha256(id::bytea) FROM me)`,
		`DELETE FROM login_sessions WHERE expires_at <= clock_timestamp()`,
	}
	releasedLogIn = []string{
		`CREATE TEMP TABLE link ON COMMIT DROP AS SELECT sha256(gen_random_uuid()::text::bytea) AS hash`,
		`INSERT INTO login_links (token_hash, user_id, expires_at) SELECT hash, 'usr_0', now() + interval '1 hour' FROM link`,
		`SELECT user_id FROM login_links WHERE token_hash = (SELECT hash FROM link) FOR UPDATE`,
		`UPDATE login_links SET used_at = clock_timestamp() WHERE token_hash = (SELECT hash FROM link)`,
		`INSERT INTO login_sessions (token_hash, user_id, expires_at) SELECT hash, 'usr_0', now() + interval '1 hour' FROM link`,
	}
	releasedKeys = []string{
		`SELECT m.role FROM api_keys k LEFT JOIN memberships m ON m.user_id = k.user_id WHERE k.id = 'key_0'`,
		`UPDATE api_keys SET last_used_at = clock_timestamp() WHERE id = 'key_0'`,
	}
)

// oldBinary keeps doing what the released one does until it is stopped.
type oldBinary struct {
	db      *sql.DB
	slowest atomic.Int64
	lives   atomic.Int64
}

func (b *oldBinary) timed(f func() error) error {
	began := time.Now()
	err := f()
	for took := int64(time.Since(began)); ; {
		if was := b.slowest.Load(); took <= was || b.slowest.CompareAndSwap(was, took) {
			return err
		}
	}
}

// live carries runs of one organization out, until stopped is closed and once more.
func (b *oldBinary) live(ctx context.Context, stopped <-chan struct{}, org int) error {
	for n, last := 0, false; !last; n++ {
		last = isClosed(stopped)
		run := fmt.Sprintf("live_%d_%d", org, n)
		for i, query := range releasedLife {
			var touched int64
			err := b.timed(func() error {
				res, err := b.db.ExecContext(ctx, query, run, fmt.Sprint("org_", org), fmt.Sprint("agt_", org))
				if err == nil {
					touched, err = res.RowsAffected()
				}
				return err
			})
			if err != nil || touched != 1 {
				return fmt.Errorf("statement %d of run %s: %d rows: %w", i, run, touched, err)
			}
		}
		b.lives.Add(1)
	}
	return nil
}

// repeat runs a transaction until stopped is closed and once more.
func (b *oldBinary) repeat(ctx context.Context, stopped <-chan struct{}, queries []string) error {
	for last := false; !last; {
		last = isClosed(stopped)
		tx, err := b.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for i, query := range queries {
			if err := b.timed(func() error { _, err := tx.ExecContext(ctx, query); return err }); err != nil {
				return errors.Join(fmt.Errorf("statement %d of %s: %w", i, queries[0], err), tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Binaries of the release before accept, carry out, change and remove while the migrations run: nothing of theirs
// fails or waits for long, and what they write meanwhile has its organization.
func TestMigratingUnderTheReleaseBefore(t *testing.T) {
	t.Parallel()
	dsn, db := released(t)
	fill(t, db, 40_000)
	settings := url.Values{"statement_timeout": {"30000"}, "lock_timeout": {"15000"}, "enable_seqscan": {"off"}, "plan_cache_mode": {"force_generic_plan"}}
	old := &oldBinary{db: testkit.SQL(t, dsn+"&"+settings.Encode())}
	old.db.SetMaxOpenConns(10)
	stopped := make(chan struct{})
	var work sync.WaitGroup
	begin := func(what string, f func(context.Context, <-chan struct{}) error) {
		work.Go(func() {
			if err := f(t.Context(), stopped); err != nil {
				t.Errorf("the release before: %s: %v", what, err)
			}
		})
	}
	for org := range 4 {
		begin("runs", func(ctx context.Context, stopped <-chan struct{}) error { return old.live(ctx, stopped, org) })
	}
	for what, queries := range map[string][]string{
		"agents": releasedEdit, "sweeping": releasedSweep, "signing up": releasedSignUp, "logging in": releasedLogIn, "keys": releasedKeys,
	} {
		begin(what, func(ctx context.Context, stopped <-chan struct{}) error { return old.repeat(ctx, stopped, queries) })
	}
	began := time.Now()
	err := migrations.Up(t.Context(), db)
	took, lives := time.Since(began), old.lives.Load()
	close(stopped)
	work.Wait()
	if err != nil {
		t.Fatal(err)
	}
	slowest := time.Duration(old.slowest.Load())
	t.Logf("%v, %d runs meanwhile, the slowest statement took %v", took, lives, slowest)
	if lives == 0 || slowest > testkit.Within(5*time.Second) {
		t.Errorf("%d runs were carried out meanwhile, the slowest statement took %v", lives, slowest)
	}
	wantTenancy(t, db)
}

// wantTenancy looks at what row-level security rests on.
func wantTenancy(t *testing.T, db *sql.DB) {
	t.Helper()
	for what, query := range map[string]string{
		"steps without their run's organization": `SELECT s.run_id FROM steps s LEFT JOIN runs r ON r.id = s.run_id
			WHERE s.org_id IS DISTINCT FROM r.org_id OR r.id IS NULL`,
		"configurations without their agent's organization": `SELECT c.target_id FROM agent_configs c
			LEFT JOIN agents a ON a.id = c.target_id WHERE c.org_id IS DISTINCT FROM a.org_id`,
		"what is left of migrating": `SELECT conname FROM pg_constraint WHERE conrelid IN ('steps'::regclass, 'login_sessions'::regclass) AND contype = 'c'
			UNION ALL SELECT conname FROM pg_constraint WHERE conrelid = 'blob_chunks'::regclass AND (NOT convalidated OR conname = 'blob_chunks_data_check')
			UNION ALL SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid`,
		"what is missing": `SELECT wanted FROM unnest(ARRAY['sessions_org', 'sessions_principal', 'run_events', 'login_sessions_id', 'invitations',
			'effects', 'sources_sweep', 'run_sources_hash', 'blobs_sweep', 'blob_chunks', 'files_newest', 'files_blob',
			'documents_content', 'documents_url', 'run_documents_document', 'run_attempts', 'runs_automation',
			'past_usage', 'past_usage_sweep', 'past_automations', 'past_automations_sweep', 'heard']) wanted
			WHERE to_regclass(wanted) IS NULL
			UNION ALL SELECT 'NOT NULL' FROM pg_attribute WHERE NOT attnotnull
			AND (attrelid = 'steps'::regclass AND attname = 'org_id' OR attrelid = 'login_sessions'::regclass AND attname = 'id')
			UNION ALL SELECT 'run_erased' WHERE NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'run_erased')
			UNION ALL SELECT 'policies of heard' WHERE (SELECT count(*) FROM pg_policy WHERE polrelid = 'heard'::regclass) <> 2`,
		"rights that migrations gave for their time": `SELECT 'CREATE' WHERE has_schema_privilege('parley_system', 'public', 'CREATE')`,
	} {
		if found := texts(t, db, query); len(found) > 0 {
			t.Errorf("%s: %d: %s …", what, len(found), strings.Join(found[:min(3, len(found))], ", "))
		}
	}
}

// A migration without a transaction that died anywhere is run again, from its beginning.
func TestMigratingAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	_, db := released(t)
	fill(t, db, 100)
	if _, err := db.ExecContext(t.Context(), `CREATE UNIQUE INDEX CONCURRENTLY sessions_org ON sessions (org_id)`); err == nil {
		t.Fatal("an index that cannot be built was")
	}
	if left := texts(t, db, `SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid`); len(left) != 1 {
		t.Fatalf("a failed build left %v", left)
	}
	const tenancy, logins, effects, files, documents = releasedSchema + 1, releasedSchema + 3, releasedSchema + 5, releasedSchema + 6, releasedSchema + 7
	if err := migrations.To(t.Context(), db, tenancy); err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{ // as if it had not come that far
		`DELETE FROM goose_db_version WHERE version_id = ` + fmt.Sprint(tenancy),
		`ALTER TABLE steps ALTER org_id DROP NOT NULL, ADD CONSTRAINT steps_have_organizations CHECK (org_id IS NOT NULL) NOT VALID`,
		`UPDATE agent_configs SET org_id = NULL`,
		`DROP POLICY tenant ON runs`,
	} {
		mustExec(t, db, half)
	}
	if err := migrations.To(t.Context(), db, logins); err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{
		`DELETE FROM goose_db_version WHERE version_id = ` + fmt.Sprint(logins),
		`ALTER TABLE login_sessions ALTER id DROP NOT NULL, ADD CONSTRAINT login_sessions_have_ids CHECK (id IS NOT NULL) NOT VALID`,
		`DROP INDEX login_sessions_id`,
	} {
		mustExec(t, db, half)
	}
	if err := migrations.To(t.Context(), db, effects); err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{
		`DELETE FROM goose_db_version WHERE version_id = ` + fmt.Sprint(effects),
		`DROP TABLE run_sources`,
		`DROP FUNCTION event_logs_of_runs, sources_to_sweep`,
		`DROP POLICY tenant ON effects`,
		`DROP TRIGGER steps_take_effects ON steps`,
		`GRANT CREATE ON SCHEMA public TO parley_system`,
	} {
		mustExec(t, db, half)
	}
	if err := migrations.To(t.Context(), db, files); err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{
		`DELETE FROM goose_db_version WHERE version_id = ` + fmt.Sprint(files),
		`DROP TABLE files`,
		`DROP INDEX blobs_sweep`,
		`DROP POLICY tenant ON blob_chunks`,
		`DROP FUNCTION blobs_to_sweep`,
		`ALTER TABLE blob_chunks ALTER data SET STORAGE EXTENDED`,
		`GRANT CREATE ON SCHEMA public TO parley_system`,
	} {
		mustExec(t, db, half)
	}
	if err := migrations.To(t.Context(), db, documents); err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{
		`DELETE FROM goose_db_version WHERE version_id = ` + fmt.Sprint(documents),
		`ALTER TABLE blob_chunks DROP CONSTRAINT blob_chunks_size, ADD CONSTRAINT blob_chunks_size CHECK (length(data) > 0) NOT VALID`,
		`DROP TABLE run_documents`,
		`DROP INDEX documents_content`,
		`DROP POLICY tenant ON documents`,
		`DROP FUNCTION parley_holdings_2`,
		`GRANT CREATE ON SCHEMA public TO parley_system`,
	} {
		mustExec(t, db, half)
	}
	if err := migrations.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	wantTenancy(t, db)
	if storage := texts(t, db, `SELECT attstorage FROM pg_attribute WHERE attrelid = 'blob_chunks'::regclass AND attname = 'data'`); storage[0] != "e" {
		t.Errorf("chunks are stored %s", storage)
	}
	if n := texts(t, db, `SELECT 1 FROM pg_policy WHERE polrelid = 'runs'::regclass`); len(n) != 2 {
		t.Errorf("%d policies of runs", len(n))
	}
}

// The same of the migration of traces, whose index is left unbuilt.
func TestMigratingTracesAgain(t *testing.T) {
	t.Parallel()
	_, db := released(t)
	fill(t, db, 100)
	if err := migrations.To(t.Context(), db, releasedSchema+10); err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{
		`DELETE FROM goose_db_version WHERE version_id = 13`,
		`DROP INDEX runs_automation`,
		`DROP POLICY tenant ON run_attempts`,
		`DROP TRIGGER runs_take_attempts ON runs`,
		`DROP TRIGGER runs_leave_numbers ON runs`,
		`DROP POLICY tenant ON past_usage`,
		`DROP TABLE past_automations`,
		`DROP FUNCTION prune_past`,
		`GRANT CREATE ON SCHEMA public TO parley_system`,
	} {
		mustExec(t, db, half)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE UNIQUE INDEX CONCURRENTLY runs_automation ON runs (org_id)`); err == nil {
		t.Fatal("an index that cannot be built was")
	}
	if err := migrations.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	wantTenancy(t, db)
	for what, query := range map[string]string{
		"policies":      `SELECT polname FROM pg_policy WHERE polrelid = 'run_attempts'::regclass`,
		"more policies": `SELECT polrelid::regclass FROM pg_policy WHERE polrelid IN ('past_usage'::regclass, 'past_automations'::regclass) AND polname = 'tenant'`,
		"triggers":      `SELECT tgname FROM pg_trigger WHERE tgname IN ('runs_take_attempts', 'runs_leave_numbers')`,
	} {
		if found := texts(t, db, query); len(found) != 2 {
			t.Errorf("%s: %v", what, found)
		}
	}
	sweepAsTheReleaseBefore(t, db)
}

// What binaries of the release before remove stays counted.
func sweepAsTheReleaseBefore(t *testing.T, db *sql.DB) {
	t.Helper()
	mustExec(t, db, `UPDATE runs SET status = 'completed', finished_at = created_at, sweep_after = '-infinity' WHERE org_id = 'org_0'`)
	const counted = `SELECT (SELECT count(*) FROM runs WHERE org_id = 'org_0') || ' ' || (SELECT coalesce(sum(runs), 0) FROM past_usage WHERE org_id = 'org_0')`
	before := texts(t, db, counted)[0]
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range releasedSweep {
		if _, err := tx.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var was, wasNot, is, past int
	_, err1 := fmt.Sscan(before, &was, &wasNot)
	_, err2 := fmt.Sscan(texts(t, db, counted)[0], &is, &past)
	if err := errors.Join(err1, err2); err != nil || wasNot != 0 || past == 0 || is+past != was {
		t.Errorf("%d runs and %d removed ones, then %d and %d: %v", was, wasNot, is, past, err)
	}
}

// A process that is connected while the migration runs goes on with the plans that it has.
func TestRunsAreCarriedOutAcrossTheMigration(t *testing.T) {
	t.Parallel()
	dsn, db := released(t)
	if err := migrations.To(t.Context(), db, releasedSchema+4); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dsn, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	b := &bench{T: t, s: s, raw: db, org: "org_1", agent: "ag_1"} // signing up needs the new schema
	b.exec(`INSERT INTO organizations (id, name) VALUES ($1, 'one')`, b.org)
	b.exec(`INSERT INTO agents (id, org_id, name, description, system_prompt, model, tools, allowed_callers, widget, version)
		VALUES ('ag_1', $1, '', '', '', '', '{}', '{system}', '{}', 1)`, b.org)
	var held []*executiondb.Claimed
	for range 3 {
		held = append(held, b.claimAsTheReleaseBefore(b.acceptAsTheReleaseBefore(b.run("", ""))))
	}
	finish := finishesAsTheReleaseBefore(b)
	finish(held[0])
	if err := migrations.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	finish(held[1])
	b.finish(b.mustClaim(b.acceptAsTheReleaseBefore(b.run("", ""))), "after")
	again := b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID)
	if kept, err := s.Executions.Extend(t.Context(), []lease.Held{held[2].Held(), again.Held()}); err != nil || len(kept.Extended) != 2 {
		t.Errorf("extended %v, %v", kept, err)
	}
	b.inState(again.Held(), "awaiting", domain.SideEffectUnsafe)
	b.park(again.Held(), domain.ActionApproval, executiondb.Chunk{})
	if out, err := b.decide(again.Held(), domain.DecisionDeny); err != nil || !out.Resumed {
		t.Errorf("%+v, %v", out, err)
	}
	b.finish(b.mustClaim(again.RunID), "parked")
	b.finish(held[2], "held")
	if runs, err := s.Runs.ListRuns(t.Context(), b.org, rundb.RunFilter{Status: domain.RunCompleted}, 9); err != nil || len(runs) != 5 {
		t.Errorf("%d runs are completed, %v", len(runs), err)
	}
}

func (b *bench) claimAsTheReleaseBefore(runID string) *executiondb.Claimed {
	b.Helper()
	var c executiondb.Claimed
	err := sqlx.NewDb(b.s.SQL(), "postgres").GetContext(b.Context(), &c, `SELECT * FROM claim_runs(ARRAY[$1], $2)`, runID, "30 seconds") //nolint:unqueryvet // as they do
	if err != nil {
		b.Fatalf("claiming as before: %v", err)
	}
	return &c
}

// A process that comes before its migration is not ready.
func TestTheSchemaOfTheReleaseBeforeIsNotEnough(t *testing.T) {
	t.Parallel()
	dsn, db := released(t)
	if err := migrations.To(t.Context(), db, 18); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dsn, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.CheckSchema(t.Context()); err == nil {
		t.Error("the schema of before passes for this one")
	}
	if err := migrations.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

// finishesAsTheReleaseBefore ends runs as its binaries do, by one prepared statement.
func finishesAsTheReleaseBefore(b *bench) func(*executiondb.Claimed) {
	b.Helper()
	stmt, err := b.s.SQL().PrepareContext(b.Context(), `SELECT count(*) FROM finish_runs(ARRAY[$1], ARRAY[$2::bigint], ARRAY['completed'],
		ARRAY['{}'], ARRAY['answer'], ARRAY[1], ARRAY[7::bigint], ARRAY[8::bigint], ARRAY[0::bigint], ARRAY[now()], ARRAY[now() + interval '1 day'],
		ARRAY[$3], ARRAY[now()], ARRAY[$2::bigint], ARRAY[3], CAST($4 AS int[]), CAST($4 AS int[]), CAST($4 AS text[]))`)
	if err != nil {
		b.Fatalf("preparing: %v", err)
	}
	b.Cleanup(func() { _ = stmt.Close() })
	return func(c *executiondb.Claimed) {
		b.Helper()
		var ended int
		if err := stmt.QueryRowContext(b.Context(), c.RunID, c.Fence, b.org, nil).Scan(&ended); err != nil || ended != 1 {
			b.Fatalf("finishing as before: %d runs, %v", ended, err)
		}
	}
}

// What the release before calls is there, and gives the columns that it reads.
func TestFunctionsOfTheReleaseBeforeAreThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := b.parked(domain.ActionApproval)
	const run = `id, org_id, agent_id, template_id, session_id, principal, trigger_type, automation_id, idempotency_key,
		idempotency_hash, fingerprint, status, ended, result, attempts, created_at, started_at, finished_at, expires_at`
	for query, want := range map[string]int{
		`SELECT ` + run + ` FROM runs_by_key(ARRAY[$1], ARRAY[$2::bytea])`: 0,
		`SELECT ` + run + ` FROM ended_runs(ARRAY[$1], ARRAY[$2])`:         0,
		`SELECT run_id, org_id FROM overdue_runs(length($1 || $2))`:        0,
		`SELECT ` + run + `, place, end_fence, end_n, fence, first_ns, last_ns, chunks
			FROM run_event_logs(ARRAY[$1], ARRAY[$2], ARRAY[0::bigint], ARRAY[0])`: 1,
	} {
		var n int
		if err := b.s.SQL().QueryRowContext(t.Context(), `SELECT count(*) FROM (`+query+`) q`, b.org, held.RunID).Scan(&n); err != nil || n != want {
			t.Errorf("%s: %d rows, %v", query, n, err)
		}
	}
}

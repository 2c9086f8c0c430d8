package growth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"

	"parley/scripts/bench/internal/load"
)

// Owner is whose runs are filled in: an organization that was made through the API, its agent and its key.
type Owner struct{ Organization, Agent, Key string }

// Batch is runs to fill in. They were accepted evenly between From and To ago, in the order of their numbers, and are kept for a day from
// then on, so that a batch from before yesterday has expired.
type Batch struct {
	First    int // the number of the first one; no two batches share any
	Runs     int
	From, To time.Duration
	OwnEvery int // one of so many is the owner's, and that with the number n has the key n/OwnEvery; 0: none is, but by chance
}

// The idempotency keys of runs that are filled in are load's, of these nonces: those of the owner's that come every so many are
// numbered from 1 on, for clients to ask for again; the others have their own numbers.
const (
	ownKeys   = "finished-o"
	otherKeys = "finished-x"
)

// Database is one that is filled, by its owner: policies and triggers are not asked.
type Database struct {
	db    *sql.DB
	owner Owner
}

// Open reads who owns what Parley has made in the database, which must be one organization with one agent and one key.
func Open(ctx context.Context, dsn string) (*Database, error) {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	db.SetMaxOpenConns(1) // its temporary tables and functions are a connection's
	d := &Database{db: db}
	for _, prepare := range prepareFilling {
		if _, err = db.ExecContext(ctx, prepare); err != nil {
			break
		}
	}
	if err == nil {
		err = db.QueryRowContext(ctx, `SELECT a.org_id, a.id, k.id FROM agents a JOIN api_keys k ON k.org_id = a.org_id`).
			Scan(&d.owner.Organization, &d.owner.Agent, &d.owner.Key)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading what is to be filled: %w", err), db.Close())
	}
	return d, nil
}

// Close ends the connection.
func (d *Database) Close() error { return d.db.Close() }

// prepareFilling makes what the statements below call: typeid is an id of that millisecond whose rest is of a hash, part is what package
// contract hashes of a text. What they are given stands in columns: then PostgreSQL puts them in line, which makes filling faster.
var prepareFilling = []string{
	`SET synchronous_commit = off`,
	`SET session_replication_role = replica`, // no triggers: what they keep is about runs that come and go, and these have always been there
	`CREATE FUNCTION pg_temp.digit(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
	  $$ SELECT substr('0123456789abcdefghjkmnpqrstvwxyz', (n & 31)::int + 1, 1) $$`,
	`CREATE FUNCTION pg_temp.typeid(prefix text, ms bigint, hash text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	  SELECT prefix || '_' || pg_temp.digit(ms >> 45) || pg_temp.digit(ms >> 40) || pg_temp.digit(ms >> 35) || pg_temp.digit(ms >> 30) ||
	    pg_temp.digit(ms >> 25) || pg_temp.digit(ms >> 20) || pg_temp.digit(ms >> 15) || pg_temp.digit(ms >> 10) ||
	    pg_temp.digit(ms >> 5) || pg_temp.digit(ms) || 'e' || substr(hash, 1, 2) || 'a' || substr(hash, 3, 12) $$`,
	`CREATE FUNCTION pg_temp.part(field text) RETURNS bytea LANGUAGE sql STABLE AS
	  $$ SELECT int8send(octet_length(field)::bigint) || convert_to(field, 'UTF8') $$`,
	`CREATE FUNCTION pg_temp.instant(at timestamptz) RETURNS text LANGUAGE sql STABLE AS
	  $$ SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$`,
}

// AddOrganizations makes n organizations, each with an agent like the owner's.
func (d *Database) AddOrganizations(ctx context.Context, n int) error {
	return d.within(ctx, "making organizations", []statement{
		{`CREATE TEMP TABLE fresh ON COMMIT DROP AS
			SELECT n, pg_temp.typeid('org', ms, hash) AS org, pg_temp.typeid('ag', ms, hash) AS agent
			FROM (SELECT n, floor(extract(epoch FROM now()) * 1000)::bigint AS ms, md5(n::text) AS hash
			  FROM generate_series(1, $1::int) n OFFSET 0) t`, []any{n}},
		{`INSERT INTO organizations (id, name) SELECT org, 'Organization ' || n FROM fresh`, nil},
		{`INSERT INTO agents (id, org_id, name, description, system_prompt, model, tools, allowed_callers, widget, version, fallback_models)
			SELECT f.agent, f.org, a.name, a.description, a.system_prompt, a.model, a.tools, a.allowed_callers, a.widget, a.version,
			  a.fallback_models FROM fresh f, agents a WHERE a.id = $1`, []any{d.owner.Agent}},
		{`INSERT INTO agent_configs (target_id, version, config, org_id) SELECT f.agent, c.version, c.config, f.org
			FROM fresh f, agent_configs c WHERE c.target_id = $1`, []any{d.owner.Agent}},
	})
}

// perStatement is how many runs are filled in at a time.
const perStatement = 50_000

// Fill fills a batch in, and leaves the tables as they are when nothing more comes.
func (d *Database) Fill(ctx context.Context, b Batch) error {
	var now time.Time
	if err := d.db.QueryRowContext(ctx, `SELECT now()`).Scan(&now); err != nil {
		return fmt.Errorf("asking the time: %w", err)
	}
	for done := 0; done < b.Runs; done += perStatement {
		n := min(perStatement, b.Runs-done)
		step := (b.From - b.To) / time.Duration(b.Runs)
		if err := d.fill(ctx, b, b.First+done, n, now.Add(-b.From+time.Duration(done)*step), step); err != nil {
			return err
		}
	}
	return d.Settle(ctx)
}

// fill fills in n runs from the one numbered first, accepted at that time, each one a step after the one before.
func (d *Database) fill(ctx context.Context, b Batch, first, n int, at time.Time, step time.Duration) error {
	return d.within(ctx, "filling runs in", []statement{
		{`CREATE TEMP TABLE owners ON COMMIT DROP AS
			SELECT row_number() OVER (ORDER BY a.id = $1, a.id) - 1 AS i, a.org_id AS org, a.id AS agent, a.id = $1 AS own,
			  sha256(pg_temp.part(a.id) || pg_temp.part('') || pg_temp.part($2) || pg_temp.part('')) AS fingerprint FROM agents a`, []any{d.owner.Agent, load.Message}},
		{
			`CREATE TEMP TABLE fresh ON COMMIT DROP AS
			SELECT t.n, o.org, o.agent, o.fingerprint, o.own, t.key, t.ref, t.at, t.id, 'auto_' || substr(t.id, 5) AS session FROM (
			  SELECT n, key, ref, at, i, pg_temp.typeid('run', ms, hash) AS id FROM (
			    SELECT n, date_trunc('milliseconds', at) AS at, floor(extract(epoch FROM at) * 1000)::bigint AS ms, md5(n::text) AS hash,
			      nextval(pg_get_serial_sequence('sessions', 'ref')) AS ref,
			      CASE WHEN n % nullif($5::int, 0) = 0 THEN $6 || lpad((n / $5::int)::text, 15, '0') ELSE $7 || lpad(n::text, 15, '0') END AS key,
			      CASE WHEN n % nullif($5::int, 0) = 0 THEN (SELECT i FROM owners WHERE own)
			        ELSE (hashint4(n)::bigint & 2147483647::bigint) % (SELECT count(*) FROM owners) END AS i
			    FROM (SELECT n, $3::timestamptz + (n - $1::int) * $4::interval AS at FROM generate_series($1::int, $1::int + $2::int - 1) n) s
			    OFFSET 0) u
			  OFFSET 0) t
			JOIN owners o ON o.i = t.i`,
			[]any{
				first, n, pq.FormatTimestamp(at), fmt.Sprintf("%d microseconds", step.Microseconds()), b.OwnEvery, keysOf(ownKeys), keysOf(otherKeys),
			},
		},
		{fillSessions, nil},
		{fillRuns, []any{d.owner.Key, load.Message}},
	})
}

// keysOf is what the keys of a nonce begin with, before 15 digits.
func keysOf(nonce string) string { return load.Key(nonce, 0)[:len(load.KeyMark)-15] }

// fillSessions and fillRuns write what one run of run-automation leaves: a session of its own, and its row.
const (
	fillSessions = `INSERT INTO sessions (ref, key, org_id, target_id, principal, session_id, last_seq, created_at) OVERRIDING SYSTEM VALUE
		SELECT ref, sha256(pg_temp.part(org) || pg_temp.part(agent) || pg_temp.part('system') || pg_temp.part(session)), org, agent, 'system',
		  session, 1, at FROM fresh ORDER BY n`
	fillRuns = `INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type,
		  automation_id, idempotency_key, idempotency_hash, fingerprint, input, retention, sweep_after, created_at, status, result, answer,
		  attempts, input_tokens, output_tokens, cost_micros, finished_at, expires_at, started_at, end_fence, end_n, key_id)
		SELECT id, org, agent, 1, ref, 1, session, 'system', 'system', 'schedule', 'bench', key,
		  sha256(pg_temp.part(org) || pg_temp.part('run-automation') || pg_temp.part('') || pg_temp.part(key)), fingerprint,
		  json_build_object('message', $2::text), 86400,
		  at + interval '1 day', at, 'completed',
		  '{"id":"' || id || '","status":"completed","agentId":"' || agent || '","templateId":null,"sessionId":"' || session ||
		  '","trigger":{"type":"schedule","automationId":"bench"},"message":' || answer.quoted || ',"output":{"message":' || answer.quoted ||
		  '},"citations":[],"toolCalls":[],"usage":{"inputTokens":10,"outputTokens":11,"costMicros":0,"model":"offline/echo"},"error":null,' ||
		  '"attempts":1,"idempotencyKey":"' || key || '","createdAt":"' || pg_temp.instant(at) || '","startedAt":"' ||
		  pg_temp.instant(at + interval '2 milliseconds') || '","finishedAt":"' || pg_temp.instant(at + interval '4 milliseconds') ||
		  '","expiresAt":"' || pg_temp.instant(at + interval '1 day 4 milliseconds') || '"}',
		  answer.plain, 1, 10, 11, 0, at + interval '4 milliseconds', at + interval '1 day 4 milliseconds', at + interval '2 milliseconds', 1, 3,
		  CASE WHEN own THEN $1 END
		FROM fresh, (SELECT 'echo: ' || $2 AS plain, to_json('echo: ' || $2)::text AS quoted) answer ORDER BY n`
)

// Settle has PostgreSQL do now what it would do sooner or later: count what there is, mark it as seen, and write it out.
func (d *Database) Settle(ctx context.Context) error {
	for _, query := range []string{
		`VACUUM (ANALYZE) runs`, `VACUUM (ANALYZE) sessions`, `VACUUM (ANALYZE) open_runs`, `VACUUM (ANALYZE) agents`,
		`VACUUM (ANALYZE) agent_configs`, `VACUUM (ANALYZE) organizations`, `CHECKPOINT`,
	} {
		if _, err := d.db.ExecContext(ctx, query); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return nil
}

// Forget removes the runs that were carried out after what was filled in, as if they had never been.
func (d *Database) Forget(ctx context.Context) error {
	return d.within(ctx, "removing what was measured", []statement{
		{`CREATE TEMP TABLE gone ON COMMIT DROP AS SELECT id, session_ref FROM runs
			WHERE org_id = $1 AND status IS NOT NULL AND idempotency_key NOT LIKE 'finished-%'`, []any{d.owner.Organization}},
		{`DELETE FROM runs WHERE id IN (SELECT id FROM gone)`, nil},
		{`DELETE FROM sessions WHERE ref IN (SELECT session_ref FROM gone)`, nil},
	})
}

// statement is one of several that are carried out together.
type statement struct {
	query string
	args  []any
}

func (d *Database) within(ctx context.Context, what string, statements []statement) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s.query, s.args...); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", what, err), tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

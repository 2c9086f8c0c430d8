-- +goose NO TRANSACTION
-- +goose Up
-- Runs that call tools: the effect ledger, what a run waits for, and what it has read. As in 0004_tenancy.sql, while
-- binaries of the release before work: each change of a table in use is by itself, and everything can be repeated.

-- Of a run in requires_action: what it waits for, until when, and since when. And the tools that a run was given at its
-- start, where others than its agent's configuration decide on them.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE open_runs
    ADD COLUMN IF NOT EXISTS required_action    json,
    ADD COLUMN IF NOT EXISTS action_expires_at  timestamptz,
    ADD COLUMN IF NOT EXISTS parked_at          timestamptz,
    ADD COLUMN IF NOT EXISTS tool_set           json;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE agents ADD COLUMN IF NOT EXISTS fallback_models text[] NOT NULL DEFAULT '{}';
END $$;
-- +goose StatementEnd

-- For counting an organization's parked runs, and for finding the sessions in which it has waiting runs. Of most runs, which
-- are dispatched as they come and never wait for a person, neither has an entry. What an interrupted migration left goes.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  FOREACH name IN ARRAY ARRAY['open_runs_parked', 'open_runs_waiting_sessions'] LOOP
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(name) AND NOT indisvalid) THEN
      EXECUTE format('DROP INDEX %I', name);
    END IF;
  END LOOP;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_parked ON open_runs (org_id) WHERE status = 'requires_action';
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_waiting_sessions ON open_runs (org_id, session_ref, seq) WHERE status = 'queued' AND NOT dispatched;

-- The ledger: one row for each call that may not be repeated freely or that a person must approve; domain.EffectState
-- draws its way. fence is that of the last attempt that had it in hand; whoever sends does so under the same.
CREATE TABLE IF NOT EXISTS effects (
  run_id       text COLLATE "C" NOT NULL,
  call_id      text COLLATE "C" NOT NULL,
  org_id       text COLLATE "C" NOT NULL,
  name         text NOT NULL,
  input        json NOT NULL,
  side_effect  text NOT NULL,
  key          text NOT NULL,
  state        text NOT NULL CHECK (state IN ('ready', 'awaiting', 'sending', 'done', 'denied', 'happened', 'void')),
  fence        bigint NOT NULL,
  outcome      json,
  decision     text, -- the last one
  decided_by   text,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  sent_at      timestamptz, -- when it was last begun to be sent; null: it was not, or is to be sent as if it were not
  decided_at   timestamptz,
  PRIMARY KEY (run_id, call_id)
);

-- Texts that runs have read, by their SHA-256: once an organization, however many runs read them.
CREATE TABLE IF NOT EXISTS sources (
  org_id       text COLLATE "C" NOT NULL,
  hash         bytea NOT NULL CHECK (length(hash) = 32),
  url          text NOT NULL,
  title        text NOT NULL,
  language     text NOT NULL,
  text         text NOT NULL,
  characters   int NOT NULL,
  truncated    boolean NOT NULL,
  read_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  sweep_after  timestamptz NOT NULL DEFAULT clock_timestamp() + interval '1 hour', -- no use looking before whether a run links to it
  PRIMARY KEY (org_id, hash)
);
CREATE INDEX IF NOT EXISTS sources_sweep ON sources (sweep_after);

CREATE TABLE IF NOT EXISTS run_sources (
  run_id  text COLLATE "C" NOT NULL,
  org_id  text COLLATE "C" NOT NULL,
  hash    bytea NOT NULL,
  PRIMARY KEY (run_id, hash)
);
CREATE INDEX IF NOT EXISTS run_sources_hash ON run_sources (org_id, hash);

-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['effects', 'sources', 'run_sources'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]))', name);
  END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE, DELETE ON effects, sources, run_sources TO parley_app;
GRANT SELECT ON sources TO parley_system;

-- Binaries of before this file erase and remove runs without knowing of these tables. Each run that has rows in them has
-- steps: the turn of the model that asked for its tools. Arrays, so that rows are found by the primary key, whatever
-- was thought best while the tables were empty.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION steps_take_effects() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM effects WHERE run_id = ANY (ARRAY(SELECT DISTINCT g.run_id FROM gone g));
  DELETE FROM run_sources WHERE run_id = ANY (ARRAY(SELECT DISTINCT g.run_id FROM gone g));
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS steps_take_effects ON steps;
  CREATE TRIGGER steps_take_effects AFTER DELETE ON steps REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION steps_take_effects();
END $$;
-- +goose StatementEnd

-- runs_by_key, with what runs wait for: organizations, hashes.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_holding_keys(text[], bytea[])
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz, required_action json)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
    r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
    r.status IS NOT NULL AS ended, r.result, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
    coalesce(o.started_at, r.started_at) AS started_at, r.finished_at, r.expires_at, o.required_action
  FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id
  WHERE r.idempotency_hash = ANY ($2) AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp());
END $$;
-- +goose StatementEnd

-- Those of the runs that wait for a person: organizations, runs. Not by their status, which an index has that holds
-- every running run.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION parked_runs(text[], text[])
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz, required_action json)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
    r.idempotency_key, r.idempotency_hash, r.fingerprint, o.status, false AS ended, r.result, o.attempts, r.created_at,
    o.started_at, r.finished_at, r.expires_at, o.required_action
  FROM open_runs o JOIN runs r ON r.id = o.run_id
  WHERE o.run_id = ANY ($2) AND o.required_action IS NOT NULL;
END $$;
-- +goose StatementEnd

-- run_event_logs, with what runs wait for: organizations, runs, and what the readers have: fences and numbers.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION event_logs_of_runs(text[], text[], bigint[], int[])
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz, required_action json,
    place bigint, end_fence bigint, end_n int, fence bigint, first_ns int[], last_ns int[], chunks text[])
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
    r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
    r.status IS NOT NULL AS ended, r.result, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
    coalesce(o.started_at, r.started_at,
      CASE WHEN r.end_fence IS NULL AND r.result IS NOT NULL
        THEN (r.result::json->>'startedAt')::timestamptz END) AS started_at, r.finished_at, r.expires_at, o.required_action,
    w.place, CASE WHEN r.status IS NULL THEN 0 ELSE coalesce(r.end_fence, f.fence + 1, 1) END AS end_fence,
    CASE WHEN r.status IS NULL THEN 0 ELSE coalesce(r.end_n, CASE WHEN f.fence IS NOT NULL THEN 1 WHEN r.answer IS NULL THEN 2 ELSE 3 END) END AS end_n,
    coalesce(f.fence, 0) AS fence, l.first_ns, l.last_ns, l.chunks
  FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS w (org_id, run_id, after_fence, after_n, place)
  JOIN runs r ON r.id = w.run_id AND r.org_id = w.org_id
  LEFT JOIN open_runs o ON o.run_id = r.id
  LEFT JOIN LATERAL (SELECT e.fence FROM run_events e WHERE e.run_id = r.id ORDER BY e.run_id DESC, e.fence DESC LIMIT 1) f ON true
  CROSS JOIN LATERAL (
    SELECT array_agg(c.first_n) AS first_ns, array_agg(c.last_n) AS last_ns, array_agg(c.events) AS chunks FROM (
      SELECT e.first_n, e.last_n, e.events FROM run_events e
      WHERE e.run_id = r.id AND e.fence = f.fence AND (e.fence, e.last_n) > (w.after_fence, w.after_n) ORDER BY e.first_n) c) l
  WHERE (r.expires_at IS NULL OR r.expires_at > clock_timestamp()) AND (r.status IS NULL OR r.result IS NOT NULL);
END $$;
-- +goose StatementEnd

-- hand_over, where many runs wait behind one that is not done with for long: it waits for a person, or for its backoff.
-- Arguments as there.
--
-- Of an organization's waiting runs the oldest are looked at first, as there, but not all of them. If that leaves places,
-- its sessions are looked at, each by its first waiting run alone: from any on, so that none is always the last, and not
-- all of them either. Rows are locked one by one in subqueries, which keeps the planner from joining in any other way; and it
-- is kept from reading more of an index than the first rows that are asked for. IS TRUE hides from it that an index of waiting
-- runs would do for a row whose key is known: it is right while there are none.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION hand_places_over(text[], int[], interval, bigint)
  RETURNS TABLE (run_id text, org_id text, lane text, dedupe text, dispatch_no int, reply_to text, traceparent text)
  LANGUAGE plpgsql SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
  f record;
  got int;
  start bigint;
BEGIN
  FOR f IN
    SELECT u.org_id, least(u.places, $4 - (SELECT count(*) FROM open_runs d WHERE d.org_id = u.org_id AND d.dispatched)) AS places
    FROM unnest($1, $2) AS u (org_id, places)
  LOOP
    CONTINUE WHEN f.places <= 0;
    RETURN QUERY
    WITH next AS (
      SELECT l.run_id
      FROM (SELECT w.run_id FROM open_runs w WHERE w.org_id = f.org_id AND w.status = 'queued' AND NOT w.dispatched
        ORDER BY w.run_id LIMIT 256) w
      CROSS JOIN LATERAL (SELECT o.run_id FROM open_runs o WHERE o.run_id = w.run_id
        AND (o.status = 'queued' AND NOT o.dispatched) IS TRUE AND (o.not_before IS NULL OR o.not_before <= clock_timestamp())
        AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref AND p.seq < o.seq)
        FOR UPDATE OF o SKIP LOCKED) l
      LIMIT f.places
    )
    UPDATE open_runs o SET dispatched = true, dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
      next_dispatch_at = clock_timestamp() + $3
    FROM next WHERE o.run_id = next.run_id
    RETURNING o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent;
    GET DIAGNOSTICS got = ROW_COUNT;
    CONTINUE WHEN got >= f.places OR NOT EXISTS (SELECT 1 FROM open_runs w
      WHERE w.org_id = f.org_id AND w.status = 'queued' AND NOT w.dispatched ORDER BY w.run_id OFFSET 256 LIMIT 1);
    SELECT a.ref + floor(random() * (z.ref - a.ref + 1))::bigint INTO start
    FROM (SELECT w.session_ref AS ref FROM open_runs w WHERE w.org_id = f.org_id AND w.status = 'queued' AND NOT w.dispatched
      ORDER BY w.session_ref LIMIT 1) a,
      (SELECT w.session_ref AS ref FROM open_runs w WHERE w.org_id = f.org_id AND w.status = 'queued' AND NOT w.dispatched
      ORDER BY w.session_ref DESC LIMIT 1) z;
    RETURN QUERY
    WITH RECURSIVE session AS (
      SELECT start - 1 AS ref, 0 AS round, false AS found
      UNION ALL
      SELECT coalesce(n.ref, 0), CASE WHEN n.ref IS NULL THEN s.round + 1 ELSE s.round END, n.ref IS NOT NULL
      FROM session s LEFT JOIN LATERAL (SELECT w.session_ref AS ref FROM open_runs w
        WHERE w.org_id = f.org_id AND w.status = 'queued' AND NOT w.dispatched
          AND w.session_ref > s.ref AND w.session_ref < CASE s.round WHEN 0 THEN 9223372036854775807 ELSE start END
        ORDER BY w.session_ref LIMIT 1) n ON true
      WHERE s.round < 2
    ), next AS (
      SELECT l.run_id FROM (SELECT ref FROM session WHERE found LIMIT 2048) s
      CROSS JOIN LATERAL (SELECT w.run_id FROM open_runs w
        WHERE w.org_id = f.org_id AND w.status = 'queued' AND NOT w.dispatched AND w.session_ref = s.ref ORDER BY w.seq LIMIT 1) w
      CROSS JOIN LATERAL (SELECT o.run_id FROM open_runs o WHERE o.run_id = w.run_id
        AND (o.status = 'queued' AND NOT o.dispatched) IS TRUE AND (o.not_before IS NULL OR o.not_before <= clock_timestamp())
        AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref AND p.seq < o.seq)
        FOR UPDATE OF o SKIP LOCKED) l
      LIMIT f.places - got
    )
    UPDATE open_runs o SET dispatched = true, dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
      next_dispatch_at = clock_timestamp() + $3
    FROM next WHERE o.run_id = next.run_id
    RETURNING o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent;
  END LOOP;
END $$;
-- +goose StatementEnd

-- What looks for work in all organizations, as in 0005_functions.sql.

-- Runs whose wait for a person is over. The first condition says nothing new, but an index has it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION unanswered_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id FROM open_runs o
  WHERE o.status IN ('running', 'requires_action') AND o.status = 'requires_action' AND o.action_expires_at <= clock_timestamp()
  ORDER BY o.session_ref LIMIT $1;
END $$;
-- +goose StatementEnd

-- Texts of which it is time to look whether a run links to them. now(): see expired_runs.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sources_to_sweep(bigint)
  RETURNS TABLE (org_id text, hash bytea)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT s.org_id, s.hash FROM sources s WHERE s.sweep_after <= now() ORDER BY s.sweep_after LIMIT $1;
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['unanswered_runs(bigint)', 'sources_to_sweep(bigint)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS unanswered_runs, sources_to_sweep, hand_places_over, runs_holding_keys, parked_runs, event_logs_of_runs;
DROP TRIGGER IF EXISTS steps_take_effects ON steps;
DROP FUNCTION IF EXISTS steps_take_effects;
DROP TABLE IF EXISTS effects, sources, run_sources;
DROP INDEX IF EXISTS open_runs_parked, open_runs_waiting_sessions;
ALTER TABLE agents DROP COLUMN IF EXISTS fallback_models;
-- Nobody but this release can let a parked run go on.
UPDATE open_runs SET status = 'queued', dispatched = false, fence = fence + 1 WHERE status = 'requires_action';
ALTER TABLE open_runs DROP COLUMN IF EXISTS required_action, DROP COLUMN IF EXISTS action_expires_at, DROP COLUMN IF EXISTS parked_at,
  DROP COLUMN IF EXISTS tool_set;

-- +goose NO TRANSACTION
-- +goose Up
-- What timelines of runs, usage and lists of automations are read from. As in 0010_documents.sql, while binaries of the release
-- before work: new tables, an index built beside them, functions changed in place only where they then do more of the same, and
-- everything can be repeated.

-- Of runs that needed more than one attempt: each attempt that did not end the run, and each that came after another. And
-- when a run waited for a person: open_runs tells it as long as it does, this afterwards. Of other runs there are no rows here. A row
-- is known by the fence under which the attempt wrote, or the run waited. Binaries of before this file write none.
CREATE TABLE IF NOT EXISTS run_attempts (
  run_id    text COLLATE "C" NOT NULL,
  fence     bigint NOT NULL,
  org_id    text COLLATE "C" NOT NULL,
  kind      text NOT NULL CHECK (kind IN ('attempt', 'wait')),
  attempt   int NOT NULL, -- its number; of a wait that of the attempt before it
  began_at  timestamptz NOT NULL,
  ended_at  timestamptz, -- null: with the run, or it is not known yet
  status    text CHECK (status IN ('completed', 'failed', 'lost')),
  code      text,        -- of the error that ended it; of a wait the decision
  message   text,        -- why it ended
  call_id   text,        -- of a wait: the call that it was about
  PRIMARY KEY (run_id, fence)
);

ALTER TABLE run_attempts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS system ON run_attempts;
DROP POLICY IF EXISTS tenant ON run_attempts;
CREATE POLICY system ON run_attempts TO parley_system USING (true) WITH CHECK (true);
CREATE POLICY tenant ON run_attempts TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[]))
  WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON run_attempts TO parley_app;

-- Binaries of before this file erase and remove runs without knowing of the table. What they erase is found by the runs' steps, as in
-- 0010_documents.sql; what they remove by the runs themselves, for an attempt may end before its first step.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION steps_take_effects() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  runs text[] := ARRAY(SELECT DISTINCT g.run_id FROM gone g);
  orgs text[];
  hashes bytea[];
BEGIN
  DELETE FROM effects WHERE run_id = ANY (runs);
  DELETE FROM run_sources WHERE run_id = ANY (runs);
  DELETE FROM run_documents WHERE run_id = ANY (runs);
  DELETE FROM run_attempts WHERE run_id = ANY (runs);
  WITH made AS (DELETE FROM files WHERE run_id = ANY (runs) RETURNING org_id, hash)
  SELECT array_agg(m.org_id), array_agg(m.hash) INTO orgs, hashes FROM made m WHERE m.hash IS NOT NULL;
  PERFORM remove_unlinked_blobs(orgs, hashes);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_take_attempts() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM run_attempts WHERE run_id = ANY (ARRAY(SELECT g.id FROM gone g));
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- What is left of runs that were removed: what they came to, by the hour in which they were accepted and by whom they were for, and of
-- each automation its newest one. took counts the runs that had ended by took_bucket of what they took: its subscripts are these, from
-- the lowest to the highest there is, and null is none.
CREATE TABLE IF NOT EXISTS past_usage (
  org_id         text COLLATE "C" NOT NULL,
  hour           timestamptz NOT NULL,
  target_id      text COLLATE "C" NOT NULL, -- an agent or a template
  runs           bigint NOT NULL,
  completed      bigint NOT NULL,
  failed         bigint NOT NULL,
  cancelled      bigint NOT NULL,
  timed_out      bigint NOT NULL,
  input_tokens   bigint NOT NULL,
  output_tokens  bigint NOT NULL,
  cost_micros    bigint NOT NULL,
  took           int[] NOT NULL,
  PRIMARY KEY (org_id, hour, target_id)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS past_usage_sweep ON past_usage (hour);
CREATE TABLE IF NOT EXISTS past_automations (
  org_id         text COLLATE "C" NOT NULL,
  automation_id  text COLLATE "C" NOT NULL,
  target_id      text COLLATE "C" NOT NULL,
  trigger_type   text NOT NULL,
  run_id         text COLLATE "C" NOT NULL, -- the newest of those that were removed
  status         text NOT NULL,
  created_at     timestamptz NOT NULL,
  finished_at    timestamptz,
  PRIMARY KEY (org_id, automation_id)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS past_automations_sweep ON past_automations (created_at);

-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['past_usage', 'past_automations'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]))', name);
  END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE ON past_usage, past_automations TO parley_app; -- what removes them is prune_past
GRANT SELECT, UPDATE, DELETE ON past_usage, past_automations TO parley_system;

-- What a run took, in milliseconds; null while it goes on. Clocks may have been set back meanwhile.
CREATE OR REPLACE FUNCTION run_took(accepted timestamptz, ended timestamptz) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN ended IS NOT NULL THEN greatest(round(extract(epoch FROM ended - accepted) * 1000), 0)::bigint END $$;

-- Each bucket reaches 5 % further than the one before; the first one is of less than a millisecond.
CREATE OR REPLACE FUNCTION took_bucket(ms bigint) RETURNS int
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN ms < 1 THEN 1 ELSE 2 + floor(ln(ms::float8) / ln(1.05::float8))::int END $$;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_took(buckets int[]) RETURNS int[]
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  counts int[] := '{}';
  bucket int;
BEGIN
  FOREACH bucket IN ARRAY coalesce(buckets, '{}') LOOP
    counts[bucket] := coalesce(counts[bucket], 0) + 1;
  END LOOP;
  RETURN counts;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION add_took(counts int[], others int[]) RETURNS int[]
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  FOR bucket IN coalesce(array_lower(others, 1), 1) .. coalesce(array_upper(others, 1), 0) LOOP
    IF others[bucket] > 0 THEN
      counts[bucket] := coalesce(counts[bucket], 0) + others[bucket];
    END IF;
  END LOOP;
  RETURN counts;
END $$;
-- +goose StatementEnd

-- Whoever removes runs leaves their numbers. Rows are taken in one order, so that those who do so at once wait for each other at most.
-- What was erased has no automation any more.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_leave_numbers() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO past_usage AS p (org_id, hour, target_id, runs, completed, failed, cancelled, timed_out, input_tokens, output_tokens, cost_micros, took)
  SELECT g.org_id, date_trunc('hour', g.created_at, 'UTC') AS hour, coalesce(g.agent_id, g.template_id) AS target_id, count(*),
    count(*) FILTER (WHERE g.status = 'completed'), count(*) FILTER (WHERE g.status = 'failed'),
    count(*) FILTER (WHERE g.status = 'cancelled'), count(*) FILTER (WHERE g.status = 'timed_out'),
    coalesce(sum(g.input_tokens), 0)::bigint, coalesce(sum(g.output_tokens), 0)::bigint, coalesce(sum(g.cost_micros), 0)::bigint,
    count_took(array_agg(took_bucket(run_took(g.created_at, g.finished_at))) FILTER (WHERE g.finished_at IS NOT NULL))
  FROM gone g GROUP BY g.org_id, hour, target_id ORDER BY g.org_id, hour, target_id
  ON CONFLICT (org_id, hour, target_id) DO UPDATE SET runs = p.runs + excluded.runs, completed = p.completed + excluded.completed,
    failed = p.failed + excluded.failed, cancelled = p.cancelled + excluded.cancelled, timed_out = p.timed_out + excluded.timed_out,
    input_tokens = p.input_tokens + excluded.input_tokens, output_tokens = p.output_tokens + excluded.output_tokens,
    cost_micros = p.cost_micros + excluded.cost_micros, took = add_took(p.took, excluded.took);
  INSERT INTO past_automations AS p (org_id, automation_id, target_id, trigger_type, run_id, status, created_at, finished_at)
  SELECT DISTINCT ON (g.org_id, g.automation_id COLLATE "C")
    g.org_id, g.automation_id, coalesce(g.agent_id, g.template_id), g.trigger_type, g.id, g.status, g.created_at, g.finished_at
  FROM gone g WHERE g.automation_id IS NOT NULL AND g.status IS NOT NULL ORDER BY g.org_id, g.automation_id COLLATE "C", g.id DESC
  ON CONFLICT (org_id, automation_id) DO UPDATE SET target_id = excluded.target_id, trigger_type = excluded.trigger_type,
    run_id = excluded.run_id, status = excluded.status, created_at = excluded.created_at, finished_at = excluded.finished_at
    WHERE p.run_id < excluded.run_id;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- Removes what is older than so much, up to so many rows of each table, and says of how many at most.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION prune_past(most bigint, usage_kept interval, automations_kept interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  hours bigint;
  automations bigint;
BEGIN
  DELETE FROM past_usage p WHERE p.ctid = ANY (ARRAY(
    SELECT d.ctid FROM past_usage d WHERE d.hour < now() - usage_kept ORDER BY d.hour LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS hours = ROW_COUNT;
  DELETE FROM past_automations p WHERE p.ctid = ANY (ARRAY(
    SELECT d.ctid FROM past_automations d WHERE d.created_at < now() - automations_kept ORDER BY d.created_at LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS automations = ROW_COUNT;
  RETURN greatest(hours, automations);
END $$;
-- +goose StatementEnd

-- parley_holdings_2 of 0010_documents.sql, where an organization whose runs were all removed holds something still.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION parley_holdings_2(member text)
RETURNS TABLE (id text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT m.org_id, m.role FROM memberships m WHERE m.user_id = member AND (
    EXISTS (SELECT 1 FROM memberships o WHERE o.org_id = m.org_id AND o.user_id <> member)
    OR EXISTS (SELECT 1 FROM agents a WHERE a.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM api_keys k WHERE k.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM invitations i WHERE i.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM documents d WHERE d.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM runs r WHERE r.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM past_usage p WHERE p.org_id = m.org_id))
$$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['prune_past(bigint, interval, interval)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;

-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS runs_take_attempts ON runs;
  CREATE TRIGGER runs_take_attempts AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION runs_take_attempts();
  DROP TRIGGER IF EXISTS runs_leave_numbers ON runs;
  CREATE TRIGGER runs_leave_numbers AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION runs_leave_numbers();
END $$;
-- +goose StatementEnd

-- The runs of each automation, in their order. Chats, which are none, are not in it, and ending a run changes nothing of it.
-- What an interrupted migration left goes.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('runs_automation') AND NOT indisvalid) THEN
    DROP INDEX runs_automation;
  END IF;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_automation ON runs (org_id, automation_id COLLATE "C", id) WHERE automation_id IS NOT NULL;
-- +goose Down
DROP INDEX IF EXISTS runs_automation;
DROP TRIGGER IF EXISTS runs_take_attempts ON runs;
DROP TRIGGER IF EXISTS runs_leave_numbers ON runs;
DROP FUNCTION IF EXISTS runs_take_attempts, runs_leave_numbers, prune_past, count_took, add_took, took_bucket, run_took;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION parley_holdings_2(member text)
RETURNS TABLE (id text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT m.org_id, m.role FROM memberships m WHERE m.user_id = member AND (
    EXISTS (SELECT 1 FROM memberships o WHERE o.org_id = m.org_id AND o.user_id <> member)
    OR EXISTS (SELECT 1 FROM agents a WHERE a.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM api_keys k WHERE k.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM invitations i WHERE i.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM documents d WHERE d.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM runs r WHERE r.org_id = m.org_id))
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION steps_take_effects() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  runs text[] := ARRAY(SELECT DISTINCT g.run_id FROM gone g);
  orgs text[];
  hashes bytea[];
BEGIN
  DELETE FROM effects WHERE run_id = ANY (runs);
  DELETE FROM run_sources WHERE run_id = ANY (runs);
  DELETE FROM run_documents WHERE run_id = ANY (runs);
  WITH made AS (DELETE FROM files WHERE run_id = ANY (runs) RETURNING org_id, hash)
  SELECT array_agg(m.org_id), array_agg(m.hash) INTO orgs, hashes FROM made m WHERE m.hash IS NOT NULL;
  PERFORM remove_unlinked_blobs(orgs, hashes);
  RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TABLE IF EXISTS run_attempts, past_usage, past_automations;

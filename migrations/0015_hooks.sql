-- +goose NO TRANSACTION
-- +goose Up
-- Hooks, the log of their deliveries, and what is still collected for one run. As in 0014_voice.sql, while binaries of the release before
-- work: new tables, a function of a new name, functions changed in place only where they then do more of the same, and everything can be
-- repeated.

-- The API key that a run entered by; null: none, or a binary of before this file accepted it.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE runs ADD COLUMN IF NOT EXISTS key_id text COLLATE "C";
END $$;
-- +goose StatementEnd

-- The agent and the key are checked when a delivery comes: either may have ended by then. What a source knows of a hook is its id, so
-- that of one that was deleted the row stays until its log is gone.
CREATE TABLE IF NOT EXISTS hooks (
  id                  text COLLATE "C" PRIMARY KEY,
  org_id              text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name                text NOT NULL,
  agent_id            text COLLATE "C" NOT NULL,
  key_id              text COLLATE "C" NOT NULL,
  source              text NOT NULL CHECK (source IN ('github', 'stripe', 'slack', 'standard', 'hmac', 'token')),
  secret              text NOT NULL, -- sealed, as is the one before it
  previous_secret     text NOT NULL DEFAULT '',
  previous_until      timestamptz, -- until then the one before is taken as well; null: it is not
  signature_header    text NOT NULL,
  delivery_id_header  text NOT NULL,
  message_template    text NOT NULL,
  filter              json NOT NULL,
  coalescing          json,
  enabled             boolean NOT NULL,
  created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  deleted_at          timestamptz
);
CREATE INDEX IF NOT EXISTS hooks_org ON hooks (org_id, id) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS hooks_deleted ON hooks (deleted_at) WHERE deleted_at IS NOT NULL;

-- Each delivery whose signature held, once. ref is the order in which they came. Several have one run when it collects them.
CREATE SEQUENCE IF NOT EXISTS deliveries_ref;
CREATE TABLE IF NOT EXISTS deliveries (
  hook_id        text COLLATE "C" NOT NULL,
  delivery_id    text COLLATE "C" NOT NULL,
  ref            bigint NOT NULL DEFAULT nextval('deliveries_ref'),
  org_id         text COLLATE "C" NOT NULL,
  status         text NOT NULL CHECK (status IN ('accepted', 'coalesced', 'filtered', 'answered', 'refused')),
  event          text NOT NULL,
  run_id         text COLLATE "C", -- null: it has none
  bytes          bigint NOT NULL CHECK (bytes >= 0),
  body           bytea, -- null: it is not kept
  sealed         boolean NOT NULL DEFAULT false, -- the body
  content_type   text NOT NULL,
  error_code     text, -- why it was refused
  error_message  text,
  received_at    timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  duplicates     int NOT NULL DEFAULT 0, -- times that it came again
  sweep_after    timestamptz NOT NULL DEFAULT clock_timestamp() + interval '30 days', -- kept until then, and as long as its run
  PRIMARY KEY (hook_id, delivery_id)
);
CREATE INDEX IF NOT EXISTS deliveries_log ON deliveries (hook_id, ref);
CREATE INDEX IF NOT EXISTS deliveries_run ON deliveries (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS deliveries_sweep ON deliveries (sweep_after);

-- Runs that collect deliveries: queued, and held until they are released. The row is there exactly as long as the run does so. key_hash
-- is over what the deliveries have in common.
CREATE TABLE IF NOT EXISTS collecting (
  hook_id      text COLLATE "C" NOT NULL,
  key_hash     bytea NOT NULL,
  org_id       text COLLATE "C" NOT NULL,
  run_id       text COLLATE "C" NOT NULL,
  deliveries   bigint NOT NULL, -- how many there are
  input        json NOT NULL,   -- of the run, by the newest of them
  first_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  last_at      timestamptz NOT NULL, -- it collects no longer than until then
  closes_at    timestamptz NOT NULL,
  PRIMARY KEY (hook_id, key_hash)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX IF NOT EXISTS collecting_run ON collecting (run_id);
CREATE INDEX IF NOT EXISTS collecting_closes ON collecting (closes_at);

-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['hooks', 'deliveries', 'collecting'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]))', name);
  END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE, DELETE ON hooks, deliveries, collecting TO parley_app;
GRANT USAGE ON SEQUENCE deliveries_ref TO parley_app;
GRANT SELECT, DELETE ON hooks TO parley_system;
GRANT SELECT, UPDATE, DELETE ON deliveries TO parley_system;
GRANT SELECT ON collecting TO parley_system;

-- accept_runs of 0005_functions.sql, with the keys that the runs entered by, and for how many milliseconds each is held: 0 not at all, -1
-- until it is released. A held run is queued, takes no place of its organization's, and its deadline is so much later.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION accept_runs_2(text[], text[], text[], text[], text[], text[], text[], bytea[], text[], text[], text[],
    bytea[], bytea[], text[], text[], text[], text[], text[], int[], int[], bigint, interval, text[], bigint[])
  RETURNS TABLE (run_id text, created_at timestamptz, dispatched boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
BEGIN
  RETURN QUERY
  WITH batch AS MATERIALIZED (
    SELECT id, org_id, nullif(agent_id, '') AS agent_id, nullif(template_id, '') AS template_id, caller_kind, principal,
      session_id, session_key, trigger_type, nullif(automation_id, '') AS automation_id, nullif(key, '') AS key,
      nullif(key_hash, '') AS key_hash, nullif(fingerprint, '') AS fingerprint, input, lane, dedupe, reply_to, traceparent,
      retention, deadline, nullif(key_id, '') AS key_id, hold, n
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::text[], $10::text[],
      $11::text[], $12::bytea[], $13::bytea[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::int[], $20::int[], $23::text[], $24::bigint[])
      WITH ORDINALITY AS u (id, org_id, agent_id, template_id, caller_kind, principal, session_id, session_key, trigger_type,
      automation_id, key, key_hash, fingerprint, input, lane, dedupe, reply_to, traceparent, retention, deadline, key_id, hold, n)
  ), eligible AS MATERIALIZED (
    SELECT b.*, coalesce(a.version, t.version) AS config_version
    FROM batch b
    LEFT JOIN agents a ON a.id = b.agent_id AND a.org_id = b.org_id AND a.deleted_at IS NULL AND b.caller_kind = ANY (a.allowed_callers)
    LEFT JOIN templates t ON t.id = b.template_id
    WHERE coalesce(a.version, t.version) IS NOT NULL
      AND (NOT EXISTS (SELECT 1 FROM runs k WHERE k.idempotency_hash = b.key_hash)) IS NOT FALSE
  ), session AS (
    INSERT INTO sessions AS s (key, org_id, target_id, principal, session_id, last_seq)
    SELECT session_key, min(org_id), min(coalesce(agent_id, template_id)), min(principal), min(session_id), count(*)
    FROM eligible GROUP BY session_key ORDER BY session_key
    ON CONFLICT (key) DO UPDATE SET last_seq = s.last_seq + excluded.last_seq
    RETURNING s.key, s.ref, s.last_seq
  ), used AS MATERIALIZED (
    SELECT org_id, (SELECT count(*) FROM (SELECT 1 FROM open_runs d WHERE d.org_id = o.org_id AND d.dispatched LIMIT $21) counted) AS places
    FROM (SELECT DISTINCT org_id FROM eligible) o
  ), numbered AS (
    SELECT e.*, s.ref, row_number() OVER in_order AS turn,
      s.last_seq - count(*) OVER (PARTITION BY e.session_key) + row_number() OVER in_order AS seq
    FROM eligible e JOIN session s ON s.key = e.session_key
    WINDOW in_order AS (PARTITION BY e.session_key ORDER BY e.n)
  ), headed AS MATERIALIZED (
    SELECT *, turn = 1 AND (seq = 1 OR
      (SELECT p.seq FROM open_runs p WHERE p.session_ref = numbered.ref LIMIT 1) IS NULL) AS head
    FROM numbered
  ), placed AS MATERIALIZED (
    SELECT h.*, h.head AND h.hold = 0
      AND u.places + count(*) FILTER (WHERE h.head AND h.hold = 0) OVER (PARTITION BY h.org_id ORDER BY h.n) <= $21 AS dispatch
    FROM headed h JOIN used u USING (org_id)
  ), inserted AS (
    INSERT INTO runs (id, org_id, agent_id, template_id, config_version, session_ref, seq, session_id, principal, caller_kind,
      trigger_type, automation_id, idempotency_key, idempotency_hash, fingerprint, input, retention, sweep_after, created_at, key_id)
    SELECT id, org_id, agent_id, template_id, config_version, ref, seq, session_id, principal, caller_kind, trigger_type,
      automation_id, key, key_hash, fingerprint, input::json, retention,
      CASE WHEN retention > 0 THEN now() + make_interval(secs => retention) END, date_trunc('milliseconds', clock_timestamp()), key_id
    FROM placed ORDER BY key_hash, id
    ON CONFLICT (idempotency_hash) WHERE idempotency_hash IS NOT NULL DO NOTHING
    RETURNING id, created_at
  ), opened AS (
    INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dispatched_at,
      next_dispatch_at, not_before, dedupe, reply_to, traceparent, deadline)
    SELECT i.id, p.org_id, p.agent_id, p.ref, p.seq, p.lane, 'queued', p.dispatch, p.dispatch::int,
      CASE WHEN p.dispatch THEN clock_timestamp() END, CASE WHEN p.dispatch THEN clock_timestamp() + $22::interval END,
      CASE WHEN p.hold > 0 THEN i.created_at + make_interval(secs => p.hold / 1000.0) WHEN p.hold < 0 THEN 'infinity' END,
      p.dedupe, p.reply_to, p.traceparent, i.created_at + make_interval(secs => p.deadline + greatest(p.hold, 0) / 1000.0)
    FROM inserted i JOIN placed p ON p.id = i.id
  )
  SELECT i.id AS run_id, i.created_at, p.dispatch AS dispatched FROM inserted i JOIN placed p ON p.id = i.id;
END $$;
-- +goose StatementEnd

-- Logs deliveries: hooks, ids, organizations, statuses, events, runs, sizes, bodies, whether these are sealed, content types, codes and
-- messages of errors, and how often each came again at once. It gives all that are of hooks there are, as they then stand; inserted are
-- those that nobody had seen. What became of one that has a run stays; of one that has none the new outcome counts, for its hook or its
-- agent may have been mended meanwhile. They are numbered in the order of the arguments, and locked in that of their keys.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION log_deliveries(text[], text[], text[], text[], text[], text[], bigint[], bytea[], boolean, text[], text[], text[], int[])
  RETURNS TABLE (hook_id text, delivery_id text, ref bigint, status text, event text, run_id text, bytes bigint, kept boolean,
    error_code text, error_message text, received_at timestamptz, duplicates int, inserted boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($3);
BEGIN
  RETURN QUERY
  WITH numbered AS MATERIALIZED (
    SELECT u.*, nextval('deliveries_ref') AS ref FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $10, $11, $12, $13) AS u
      (hook_id, delivery_id, org_id, status, event, run_id, bytes, body, content_type, error_code, error_message, again)
  )
  INSERT INTO deliveries AS d (hook_id, delivery_id, ref, org_id, status, event, run_id, bytes, body, sealed, content_type, error_code,
    error_message, duplicates)
  SELECT n.hook_id, n.delivery_id, n.ref, h.org_id, n.status, n.event, nullif(n.run_id, ''), n.bytes, nullif(n.body, ''), $9,
    n.content_type, nullif(n.error_code, ''), nullif(n.error_message, ''), n.again
  FROM numbered n JOIN hooks h ON h.id = n.hook_id WHERE h.org_id = n.org_id AND h.deleted_at IS NULL
  ORDER BY n.hook_id COLLATE "C", n.delivery_id COLLATE "C"
  ON CONFLICT (hook_id, delivery_id) DO UPDATE SET duplicates = d.duplicates + excluded.duplicates + 1,
    status = CASE WHEN d.run_id IS NULL THEN excluded.status ELSE d.status END,
    error_code = CASE WHEN d.run_id IS NULL THEN excluded.error_code ELSE d.error_code END,
    error_message = CASE WHEN d.run_id IS NULL THEN excluded.error_message ELSE d.error_message END,
    run_id = coalesce(d.run_id, excluded.run_id)
  RETURNING d.hook_id, d.delivery_id, d.ref, d.status, d.event, d.run_id, d.bytes, d.body IS NOT NULL AS kept, d.error_code,
    d.error_message, d.received_at, d.duplicates, d.xmax = 0 AS inserted; -- no other transaction has had the row in hand
END $$;
-- +goose StatementEnd

-- Collects deliveries, of each hook and key those that came together: hooks, hashes of keys, organizations, runs that begin where none
-- collects, how many deliveries they are, inputs; windows and longest waits in milliseconds; and after how many one collects no more. It
-- gives the runs that collect them. A key that is being released, or whose run is being ended, is waited for, and begins a new one.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION collect_deliveries(text[], bytea[], text[], text[], bigint[], text[], bigint[], bigint[], bigint)
  RETURNS TABLE (hook_id text, key_hash bytea, run_id text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($3);
BEGIN
  RETURN QUERY
  INSERT INTO collecting AS c (hook_id, key_hash, org_id, run_id, deliveries, input, first_at, last_at, closes_at)
  SELECT u.hook_id, u.key_hash, u.org_id, u.run_id, u.deliveries, u.input::json, now_at.at, now_at.at + make_interval(secs => u.longest / 1000.0),
    now_at.at + make_interval(secs => CASE WHEN u.deliveries >= $9 THEN 0 ELSE least(u.window_ms, u.longest) / 1000.0 END)
  FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) AS u (hook_id, key_hash, org_id, run_id, deliveries, input, window_ms, longest)
    CROSS JOIN (SELECT clock_timestamp() AS at) now_at
  ORDER BY u.hook_id COLLATE "C", u.key_hash
  ON CONFLICT (hook_id, key_hash) DO UPDATE SET deliveries = c.deliveries + excluded.deliveries, input = excluded.input,
    closes_at = CASE WHEN c.deliveries + excluded.deliveries >= $9 THEN least(c.closes_at, excluded.first_at)
      ELSE least(excluded.closes_at, c.last_at) END
  RETURNING c.hook_id, c.key_hash, c.run_id;
END $$;
-- +goose StatementEnd

-- Says what became of logged deliveries, where that is not what was expected: hooks, ids, organizations, statuses, runs, codes and messages
-- of errors; and ends the collecting of runs that there are none of.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION settle_deliveries(text[], text[], text[], text[], text[], text[], text[], text[]) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for($3);
BEGIN
  UPDATE deliveries d SET status = u.status, run_id = nullif(u.run_id, ''), error_code = nullif(u.error_code, ''),
    error_message = nullif(u.error_message, '')
  FROM unnest($1, $2, $3, $4, $5, $6, $7) AS u (hook_id, delivery_id, org_id, status, run_id, error_code, error_message)
  WHERE d.hook_id = u.hook_id AND d.delivery_id = u.delivery_id AND d.org_id = u.org_id;
  DELETE FROM collecting c WHERE c.run_id = ANY ($8);
END $$;
-- +goose StatementEnd

-- Those of the runs that are kept: organizations, runs. runs_holding_keys of 0008_effects.sql, by their ids.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_of_deliveries(text[], text[])
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
  WHERE r.id = ANY ($2) AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp());
END $$;
-- +goose StatementEnd

-- A run that ends while it collects, as it does when it is cancelled or erased, collects no more. It has never started, and neither have
-- few others that end. Whoever ends it may be of before this file.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION run_collects_no_more() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM collecting WHERE run_id = NEW.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- As in 0014_voice.sql, and what the deliveries said that the run was made of.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION run_erased() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM heard WHERE run_id = NEW.id;
  UPDATE deliveries SET body = NULL WHERE run_id = NEW.id AND body IS NOT NULL;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- What a delivery brought goes with its run: no erasure would find it afterwards. They are locked in the order of their keys, as by
-- log_deliveries, and by its name this comes before the other triggers, whose rows are locked behind deliveries, too.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION deliveries_forget_runs() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  removed text[] := ARRAY(SELECT g.id FROM gone g);
BEGIN
  PERFORM FROM deliveries d WHERE d.run_id = ANY (removed) AND d.body IS NOT NULL ORDER BY d.hook_id, d.delivery_id FOR UPDATE;
  IF FOUND THEN
    UPDATE deliveries d SET body = NULL WHERE d.run_id = ANY (removed) AND d.body IS NOT NULL;
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS run_collects_no_more ON runs;
  CREATE TRIGGER run_collects_no_more AFTER UPDATE OF status ON runs
    FOR EACH ROW WHEN (NEW.status IS NOT NULL AND NEW.started_at IS NULL) EXECUTE FUNCTION run_collects_no_more();
  DROP TRIGGER IF EXISTS deliveries_forget_runs ON runs;
  CREATE TRIGGER deliveries_forget_runs AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION deliveries_forget_runs();
END $$;
-- +goose StatementEnd

-- What precedes an organization, or looks for work in all of them, as in 0005_functions.sql.

-- What a delivery to a hook is checked by. Nothing of one that was deleted, or whose key has ended: the latter is looked for in the hook's
-- organization. previous_secret is null when it is taken no more.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION receiving_hook(hook text)
  RETURNS TABLE (id text, org_id text, name text, agent_id text, key_id text, source text, secret text, previous_secret text,
    previous_until timestamptz, signature_header text, delivery_id_header text, message_template text, filter json, coalescing json,
    enabled boolean, created_at timestamptz, updated_at timestamptz, key_scope text, key_user_id text)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT h.id, h.org_id, h.name, h.agent_id, h.key_id, h.source, h.secret,
    CASE WHEN h.previous_until > clock_timestamp() THEN h.previous_secret END, CASE WHEN h.previous_until > clock_timestamp() THEN h.previous_until END,
    h.signature_header, h.delivery_id_header, h.message_template, h.filter, h.coalescing, h.enabled, h.created_at, h.updated_at, k.scope, k.user_id
  FROM hooks h JOIN api_keys k ON k.id = h.key_id AND k.org_id = h.org_id
  WHERE h.id = hook AND h.deleted_at IS NULL AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp());
END $$;
-- +goose StatementEnd

-- Keys whose runs have collected for long enough. now(): see expired_runs.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION collected_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT c.run_id, c.org_id FROM collecting c WHERE c.closes_at <= now() ORDER BY c.closes_at LIMIT $1;
END $$;
-- +goose StatementEnd

-- Looks at up to so many deliveries whose time is over, removes them unless their run is kept still, and up to so many of hooks that were
-- deleted, once nothing collects for them; then these hooks. It says of how many deliveries at most. now(): see expired_runs.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION prune_deliveries(most bigint) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  due tid[] := ARRAY(SELECT d.ctid FROM deliveries d WHERE d.sweep_after <= now() ORDER BY d.sweep_after LIMIT most FOR UPDATE SKIP LOCKED);
  left_over tid[];
  dead text[] := ARRAY(SELECT h.id FROM hooks h WHERE h.deleted_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM collecting c WHERE c.hook_id = h.id) ORDER BY h.deleted_at LIMIT 100);
BEGIN
  DELETE FROM deliveries d WHERE d.ctid = ANY (due) AND NOT EXISTS (SELECT FROM runs r WHERE r.id = d.run_id);
  UPDATE deliveries d SET sweep_after = now() + interval '1 day' WHERE d.ctid = ANY (due);
  left_over := ARRAY(SELECT d.ctid FROM unnest(dead) AS h (id) JOIN deliveries d ON d.hook_id = h.id LIMIT most FOR UPDATE OF d SKIP LOCKED);
  DELETE FROM deliveries d WHERE d.ctid = ANY (left_over);
  DELETE FROM hooks h WHERE h.id = ANY (dead) AND h.deleted_at < now() - interval '1 hour'
    AND NOT EXISTS (SELECT FROM deliveries d WHERE d.hook_id = h.id);
  RETURN greatest(cardinality(due), cardinality(left_over));
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['receiving_hook(text)', 'collected_runs(bigint)', 'prune_deliveries(bigint)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP TRIGGER IF EXISTS run_collects_no_more ON runs;
DROP TRIGGER IF EXISTS deliveries_forget_runs ON runs;
DROP FUNCTION IF EXISTS deliveries_forget_runs, run_collects_no_more, receiving_hook, collected_runs, prune_deliveries, log_deliveries, collect_deliveries, settle_deliveries,
  runs_of_deliveries, accept_runs_2;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION run_erased() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM heard WHERE run_id = NEW.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- Nobody but this release can let a run go on that collects.
UPDATE open_runs SET not_before = NULL WHERE not_before = 'infinity';
DROP TABLE IF EXISTS collecting, deliveries, hooks;
DROP SEQUENCE IF EXISTS deliveries_ref;
ALTER TABLE runs DROP COLUMN IF EXISTS key_id;

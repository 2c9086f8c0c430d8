-- +goose NO TRANSACTION
-- +goose Up
-- Dispatch by organization and lane. A statement that most runs pass through counts no rows: beside a long snapshot, the dead entries of
-- every run since then would be among what it reads. Binaries of the release before keep working: their functions stay, and those that
-- would miss an index are redefined.

-- A run waits if nothing but a free slot keeps it from being dispatched. A delayed run has a not_before; the sweeper clears it in time.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  FOREACH name IN ARRAY ARRAY['open_runs_dispatched_lane', 'open_runs_waiting_lane', 'open_runs_waiting_lane_sessions', 'open_runs_delayed'] LOOP
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(name) AND NOT indisvalid) THEN
      EXECUTE format('DROP INDEX %I', name); -- what an interrupted migration left
    END IF;
  END LOOP;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_dispatched_lane ON open_runs (org_id, lane) WHERE dispatched;
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_waiting_lane ON open_runs (org_id, lane, run_id)
  WHERE status = 'queued' AND NOT dispatched AND not_before IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_waiting_lane_sessions ON open_runs (org_id, lane, session_ref, seq)
  WHERE status = 'queued' AND NOT dispatched AND not_before IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_delayed ON open_runs (not_before) WHERE not_before IS NOT NULL;

-- The lanes in which runs may wait, and the oldest of them. Acceptance adds a row; the sweeper corrects all rows once a second, so that a
-- crash or a race leaves a wrong one no longer than that. It is a hint: a finish without a row dispatches no other run, and a dispatch
-- looks at no run before the oldest. It changes once a second, and not with each run, so that its own dead versions stay few.
CREATE TABLE IF NOT EXISTS waiting_lanes (
  org_id  text COLLATE "C" NOT NULL,
  lane    text NOT NULL,
  oldest  text COLLATE "C" NOT NULL,
  PRIMARY KEY (org_id, lane)
) WITH (fillfactor = 50);
-- +goose StatementBegin
DO $$
BEGIN
  ALTER TABLE waiting_lanes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
  DROP POLICY IF EXISTS system ON waiting_lanes;
  DROP POLICY IF EXISTS tenant ON waiting_lanes;
  CREATE POLICY system ON waiting_lanes TO parley_system USING (true) WITH CHECK (true);
  CREATE POLICY tenant ON waiting_lanes TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[]))
    WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]));
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT ON waiting_lanes TO parley_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON waiting_lanes TO parley_system;

-- accept_single_runs of 0019_batches.sql, whose caller has counted: runs, their organizations without repetition, how many slots the lane
-- of each run has (by its turn), and the time until the first redispatch. Rows of waiting_lanes are locked after all others, in order.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION accept_single_runs_2(new_run[], text[], int[], interval)
  RETURNS TABLE (run_id text, created_at timestamptz, dispatched boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
BEGIN
  RETURN QUERY
  WITH inserted AS (
    INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind,
      trigger_type, automation_id, idempotency_key, idempotency_hash, fingerprint, input, retention, sweep_after, created_at, key_id)
    SELECT u.id, u.org_id, u.agent_id, a.version, nextval('sessions_ref_seq'), 1, u.session_id, u.principal, u.caller_kind, u.trigger_type,
      u.automation_id, u.key, u.key_hash, u.fingerprint, u.input, u.retention,
      CASE WHEN u.retention > 0 THEN now() + make_interval(secs => u.retention) END, date_trunc('milliseconds', clock_timestamp()), u.key_id
    FROM unnest($1) u JOIN agents a ON a.id = u.agent_id AND a.org_id = u.org_id AND a.deleted_at IS NULL AND u.caller_kind = ANY (a.allowed_callers)
    ORDER BY u.key_hash, u.id
    ON CONFLICT (idempotency_hash) WHERE idempotency_hash IS NOT NULL DO NOTHING
    RETURNING id, session_ref, created_at
  ), fresh AS (
    SELECT u.*, i.session_ref, i.created_at,
      row_number() OVER (PARTITION BY u.org_no, u.lane ORDER BY u.turn) <= ($3)[u.turn + 1] AS dispatch
    FROM unnest($1) u JOIN inserted i ON i.id = u.id
  ), session AS (
    INSERT INTO sessions (ref, key, org_id, target_id, principal, session_id, last_seq) OVERRIDING SYSTEM VALUE
    SELECT session_ref, session_key, org_id, agent_id, principal, session_id, 1 FROM fresh
  ), opened AS (
    INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dispatched_at,
      next_dispatch_at, dedupe, reply_to, traceparent, deadline)
    SELECT id, org_id, agent_id, session_ref, 1, lane, 'queued', dispatch, dispatch::int,
      CASE WHEN dispatch THEN clock_timestamp() END, CASE WHEN dispatch THEN clock_timestamp() + $4 END,
      dedupe, reply_to, traceparent, created_at + make_interval(secs => deadline)
    FROM fresh
  ), waiting AS (
    INSERT INTO waiting_lanes (org_id, lane, oldest)
    SELECT f.org_id, f.lane, min(f.id) FROM fresh f WHERE NOT f.dispatch GROUP BY f.org_id, f.lane ORDER BY f.org_id COLLATE "C", f.lane
    ON CONFLICT DO NOTHING
  )
  SELECT id, created_at, dispatch FROM fresh;
END $$;
-- +goose StatementEnd

-- accept_runs_2 of 0015_hooks.sql, whose caller has counted: the argument before the interval says how many slots the lane of each run
-- has. A delayed run takes none, and neither does one that is not its session's first.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION accept_runs_3(text[], text[], text[], text[], text[], text[], text[], bytea[], text[], text[], text[],
    bytea[], bytea[], text[], text[], text[], text[], text[], int[], int[], int[], interval, text[], bigint[])
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
      retention, deadline, slots, nullif(key_id, '') AS key_id, hold, n
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::text[], $10::text[],
      $11::text[], $12::bytea[], $13::bytea[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::int[], $20::int[], $21::int[],
      $23::text[], $24::bigint[])
      WITH ORDINALITY AS u (id, org_id, agent_id, template_id, caller_kind, principal, session_id, session_key, trigger_type,
      automation_id, key, key_hash, fingerprint, input, lane, dedupe, reply_to, traceparent, retention, deadline, slots, key_id, hold, n)
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
  ), numbered AS (
    SELECT e.*, s.ref, row_number() OVER in_order AS turn,
      s.last_seq - count(*) OVER (PARTITION BY e.session_key) + row_number() OVER in_order AS seq
    FROM eligible e JOIN session s ON s.key = e.session_key
    WINDOW in_order AS (PARTITION BY e.session_key ORDER BY e.n)
  ), headed AS MATERIALIZED (
    SELECT *, hold = 0 AND turn = 1 AND (seq = 1 OR
      (SELECT p.seq FROM open_runs p WHERE p.session_ref = numbered.ref LIMIT 1) IS NULL) AS head
    FROM numbered
  ), placed AS MATERIALIZED (
    SELECT *, head AND count(*) FILTER (WHERE head) OVER (PARTITION BY org_id, lane ORDER BY n) <= slots AS dispatch FROM headed
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
  ), waiting AS (
    INSERT INTO waiting_lanes (org_id, lane, oldest)
    SELECT p.org_id, p.lane, min(p.id) FROM inserted i JOIN placed p ON p.id = i.id WHERE NOT p.dispatch AND p.hold = 0
    GROUP BY p.org_id, p.lane ORDER BY p.org_id COLLATE "C", p.lane
    ON CONFLICT DO NOTHING
  )
  SELECT i.id AS run_id, i.created_at, p.dispatch AS dispatched FROM inserted i JOIN placed p ON p.id = i.id;
END $$;
-- +goose StatementEnd

-- end_runs of 0019_batches.sql, with each run's lane. place: the run held a slot of its lane, and runs of its organization may wait.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION end_lane_runs(run_ending[], text[], boolean)
  RETURNS TABLE (run_id text, org_id text, lane text, place boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
BEGIN
  IF $3 THEN -- a checkpoint that was not answered may have written the same
    WITH open AS MATERIALIZED (
      SELECT o.run_id, o.org_id, e.fence, e.first_n, e.last_n, e.events FROM unnest($1) e JOIN open_runs o ON o.run_id = e.id AND o.fence = e.fence
      ORDER BY o.run_id FOR UPDATE OF o
    )
    INSERT INTO run_events (run_id, org_id, fence, first_n, last_n, events)
    SELECT run_id, org_id, fence, first_n, last_n, events FROM open WHERE first_n > 0
    ON CONFLICT (run_id, fence, first_n) DO UPDATE SET last_n = excluded.last_n, events = excluded.events;
  END IF;
  RETURN QUERY
  WITH closed AS (
    DELETE FROM open_runs o USING unnest($1) e WHERE o.run_id = e.id AND o.fence = e.fence
    RETURNING o.org_id, o.lane, o.dispatched, e.*
  ), saved AS (
    UPDATE runs r SET status = c.status, result = c.result, answer = c.answer, attempts = c.attempts, input_tokens = c.input_tokens,
      output_tokens = c.output_tokens, cost_micros = c.cost_micros, finished_at = c.finished_at, expires_at = c.expires_at,
      started_at = c.started_at, end_fence = c.end_fence, end_n = c.end_n, sandbox_ms = c.sandbox_ms
    FROM closed c WHERE r.id = c.id
  )
  SELECT c.id, c.org_id, c.lane, c.dispatched AND EXISTS (SELECT 1 FROM waiting_lanes w WHERE w.org_id = c.org_id) FROM closed c;
END $$;
-- +goose StatementEnd

-- How many runs are dispatched in lanes, up to so many: organizations, lanes. It reads the dead entries of runs that have ended, too: its
-- caller asks it now and then, never for each run.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_dispatched(text[], text[], bigint)
  RETURNS TABLE (org_id text, lane text, dispatched bigint)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT u.org_id, u.lane, (SELECT count(*) FROM (SELECT 1 FROM open_runs d
    WHERE d.org_id = u.org_id AND d.lane = u.lane AND d.dispatched LIMIT $3) counted)
  FROM unnest($1, $2) AS u (org_id, lane);
END $$;
-- +goose StatementEnd

-- Dispatches waiting runs: organizations, lanes, how many of each at most, and the time until the first redispatch. It counts nothing.
--
-- The oldest waiting runs of a lane come first. If 256 of them are not enough, its sessions are looked at, each by its first waiting run
-- alone: from a random one on, so that none is always the last, and up to 2048. Rows are locked one by one in subqueries, which keeps the
-- planner from joining in any other way, and IS TRUE hides from it that an index of waiting runs would do for a row whose key is known.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dispatch_runs(text[], text[], int[], interval)
  RETURNS TABLE (run_id text, org_id text, lane text, dedupe text, dispatch_no int, reply_to text, traceparent text)
  LANGUAGE plpgsql SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
  f record;
  got int;
  oldest text;
  start bigint;
BEGIN
  FOR f IN SELECT u.org_id, u.lane, u.places FROM unnest($1, $2, $3) AS u (org_id, lane, places) WHERE u.places > 0 LOOP
    oldest := coalesce((SELECT l.oldest FROM waiting_lanes l WHERE l.org_id = f.org_id AND l.lane = f.lane), '');
    RETURN QUERY
    WITH next AS (
      SELECT l.run_id
      FROM (SELECT w.run_id FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
          AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL AND w.run_id >= oldest
        ORDER BY w.run_id LIMIT 256) w
      CROSS JOIN LATERAL (SELECT o.run_id FROM open_runs o WHERE o.run_id = w.run_id
        AND (o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL) IS TRUE
        AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref AND p.seq < o.seq)
        FOR UPDATE OF o SKIP LOCKED) l
      LIMIT f.places
    )
    UPDATE open_runs o SET dispatched = true, dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
      next_dispatch_at = clock_timestamp() + $4
    FROM next WHERE o.run_id = next.run_id
    RETURNING o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent;
    GET DIAGNOSTICS got = ROW_COUNT;
    CONTINUE WHEN got >= f.places OR NOT EXISTS (SELECT 1 FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
      AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL AND w.run_id >= oldest ORDER BY w.run_id OFFSET 256 LIMIT 1);
    SELECT a.ref + floor(random() * (z.ref - a.ref + 1))::bigint INTO start
    FROM (SELECT w.session_ref AS ref FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
        AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL ORDER BY w.session_ref LIMIT 1) a,
      (SELECT w.session_ref AS ref FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
        AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL ORDER BY w.session_ref DESC LIMIT 1) z;
    RETURN QUERY
    WITH RECURSIVE session AS (
      SELECT start - 1 AS ref, 0 AS round, false AS found
      UNION ALL
      SELECT coalesce(n.ref, 0), CASE WHEN n.ref IS NULL THEN s.round + 1 ELSE s.round END, n.ref IS NOT NULL
      FROM session s LEFT JOIN LATERAL (SELECT w.session_ref AS ref FROM open_runs w
        WHERE w.org_id = f.org_id AND w.lane = f.lane AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL
          AND w.session_ref > s.ref AND w.session_ref < CASE s.round WHEN 0 THEN 9223372036854775807 ELSE start END
        ORDER BY w.session_ref LIMIT 1) n ON true
      WHERE s.round < 2
    ), next AS (
      SELECT l.run_id FROM (SELECT ref FROM session WHERE found LIMIT 2048) s
      CROSS JOIN LATERAL (SELECT w.run_id FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
        AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL AND w.session_ref = s.ref ORDER BY w.seq LIMIT 1) w
      CROSS JOIN LATERAL (SELECT o.run_id FROM open_runs o WHERE o.run_id = w.run_id
        AND (o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL) IS TRUE
        AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref AND p.seq < o.seq)
        FOR UPDATE OF o SKIP LOCKED) l
      LIMIT f.places - got
    )
    UPDATE open_runs o SET dispatched = true, dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
      next_dispatch_at = clock_timestamp() + $4
    FROM next WHERE o.run_id = next.run_id
    RETURNING o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent;
  END LOOP;
END $$;
-- +goose StatementEnd

-- For binaries of the release before, which know of no lanes: organizations, places, the time until the first redispatch, the window.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION hand_places_over(text[], int[], interval, bigint)
  RETURNS TABLE (run_id text, org_id text, lane text, dedupe text, dispatch_no int, reply_to text, traceparent text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
  f record;
BEGIN
  FOR f IN SELECT u.org_id, l.lane, least(u.places,
      $4 - (SELECT count(*) FROM open_runs d WHERE d.org_id = u.org_id AND d.lane = l.lane AND d.dispatched))::int AS places
    FROM unnest($1, $2) AS u (org_id, places) CROSS JOIN (VALUES ('chat'), ('automation')) AS l (lane)
  LOOP
    RETURN QUERY SELECT * FROM dispatch_runs(ARRAY[f.org_id], ARRAY[f.lane], ARRAY[f.places], $3);
    acting := parley_act_for($1); -- dispatch_runs has named one organization
  END LOOP;
END $$;
-- +goose StatementEnd

-- What looks for work in all organizations, as in 0005_functions.sql.

-- Lanes with waiting runs, found by one look for each. waiting_lanes is made to agree with them.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION find_waiting_lanes()
  RETURNS TABLE (org_id text, lane text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE found AS (
    (SELECT o.org_id, o.lane, o.run_id FROM open_runs o WHERE o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL
      ORDER BY o.org_id, o.lane, o.run_id LIMIT 1)
    UNION ALL
    SELECT n.org_id, n.lane, n.run_id FROM found f CROSS JOIN LATERAL (SELECT o.org_id, o.lane, o.run_id FROM open_runs o
      WHERE o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL AND (o.org_id, o.lane) > (f.org_id, f.lane)
      ORDER BY o.org_id, o.lane, o.run_id LIMIT 1) n
  ), changed AS (
    INSERT INTO waiting_lanes AS l (org_id, lane, oldest)
    SELECT f.org_id, f.lane, f.run_id FROM found f
    WHERE NOT EXISTS (SELECT FROM waiting_lanes k WHERE k.org_id = f.org_id AND k.lane = f.lane AND k.oldest = f.run_id)
    ORDER BY f.org_id, f.lane
    ON CONFLICT (org_id, lane) DO UPDATE SET oldest = excluded.oldest
  ), removed AS (
    DELETE FROM waiting_lanes l WHERE l.ctid = ANY (ARRAY(SELECT k.ctid FROM waiting_lanes k
      WHERE NOT EXISTS (SELECT FROM found f WHERE f.org_id = k.org_id AND f.lane = k.lane)
      ORDER BY k.org_id, k.lane FOR UPDATE SKIP LOCKED))
  )
  SELECT f.org_id, f.lane FROM found f;
END $$;
-- +goose StatementEnd

-- waiting_organizations of 0005_functions.sql, for binaries of the release before.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION waiting_organizations()
  RETURNS TABLE (org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM release_delayed_runs(10000);
  RETURN QUERY SELECT DISTINCT l.org_id FROM find_waiting_lanes() l;
END $$;
-- +goose StatementEnd

-- Makes up to so many delayed runs wait whose time has come, and says how many.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION release_delayed_runs(bigint) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  released bigint;
BEGIN
  UPDATE open_runs SET not_before = NULL WHERE run_id = ANY (ARRAY(
    SELECT o.run_id FROM open_runs o WHERE o.not_before <= now() AND o.status = 'queued' ORDER BY o.not_before LIMIT $1 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS released = ROW_COUNT;
  RETURN released;
END $$;
-- +goose StatementEnd

-- The queued runs of each organization; of so many runs at most.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_backlogs(bigint)
  RETURNS TABLE (org_id text, runs bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.org_id, count(*) FROM (SELECT org_id FROM open_runs WHERE status = 'queued' LIMIT $1) o GROUP BY o.org_id;
END $$;
-- +goose StatementEnd

-- The functions below find work for sweepers, as before. Each organization's first run comes before any organization's second, and
-- the limit is for a whole round: whoever acts on what they find does so in parts, and passes over the rows that another sweeper holds.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION overdue_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.run_id, f.org_id FROM (SELECT o.run_id, o.org_id, row_number() OVER (PARTITION BY o.org_id ORDER BY o.deadline, o.run_id) AS n
    FROM open_runs o WHERE o.deadline <= clock_timestamp() AND o.status <> 'requires_action') f
  ORDER BY f.n, f.run_id LIMIT $1;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lost_runs(bigint, interval)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.run_id, f.org_id FROM (SELECT o.run_id, o.org_id, row_number() OVER (PARTITION BY o.org_id ORDER BY o.lease_until, o.run_id) AS n
    FROM open_runs o WHERE o.dispatched AND o.status = 'running' AND o.lease_until < clock_timestamp()
      AND pg_postmaster_start_time() < clock_timestamp() - $2) f
  ORDER BY f.n, f.run_id LIMIT $1;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION unclaimed_runs(bigint)
  RETURNS TABLE (run_id text, org_id text, lane text, dedupe text, dispatch_no int, reply_to text, traceparent text, dispatched_at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.run_id, f.org_id, f.lane, f.dedupe, f.dispatch_no, f.reply_to, f.traceparent, f.dispatched_at FROM (
    SELECT o.*, row_number() OVER (PARTITION BY o.org_id ORDER BY o.next_dispatch_at, o.run_id) AS n
    FROM open_runs o WHERE o.dispatched AND o.status = 'queued' AND o.next_dispatch_at <= clock_timestamp()) f
  ORDER BY f.n, f.run_id LIMIT $1;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION collected_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.run_id, f.org_id FROM (SELECT c.run_id, c.org_id, c.closes_at, row_number() OVER (PARTITION BY c.org_id ORDER BY c.closes_at) AS n
    FROM collecting c WHERE c.closes_at <= now()) f
  ORDER BY f.n, f.closes_at LIMIT $1;
END $$;
-- +goose StatementEnd

-- open_budget of 0017_budgets.sql, by one transaction at a time: others wait for its count, rather than reading all runs of the period each.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION open_budget(b budgets, since date) RETURNS boolean
  LANGUAGE plpgsql AS $$
DECLARE
  made boolean;
BEGIN
  IF EXISTS (SELECT FROM budget_counts c WHERE c.budget_id = b.id AND c.starts_on = since) THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('parley.budget ' || b.id, 0));
  IF EXISTS (SELECT FROM budget_counts c WHERE c.budget_id = b.id AND c.starts_on = since) THEN
    RETURN false;
  END IF;
  INSERT INTO budget_counts (budget_id, starts_on, org_id, used) VALUES (b.id, since, b.org_id, budget_seed(b, since)) ON CONFLICT DO NOTHING;
  made := FOUND;
  DELETE FROM budget_counts c WHERE c.budget_id = b.id AND c.reserved = 0
    AND c.starts_on < budget_start(b.period, (since - 1)::timestamp AT TIME ZONE 'UTC');
  RETURN made;
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['find_waiting_lanes()', 'release_delayed_runs(bigint)', 'count_backlogs(bigint)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;

-- The functions above need these no more. open_runs_waiting stays: an organization's runs by hooks are counted along it.
DROP INDEX CONCURRENTLY IF EXISTS open_runs_dispatched;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_waiting_sessions;
-- +goose Down
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_dispatched ON open_runs (org_id) WHERE dispatched;
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_waiting_sessions ON open_runs (org_id, session_ref, seq) WHERE status = 'queued' AND NOT dispatched;
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
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION waiting_organizations()
  RETURNS TABLE (org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE org AS (
    (SELECT org_id FROM open_runs WHERE status = 'queued' AND NOT dispatched ORDER BY org_id LIMIT 1)
    UNION ALL
    SELECT (SELECT o.org_id FROM open_runs o
      WHERE o.status = 'queued' AND NOT o.dispatched AND o.org_id > org.org_id ORDER BY o.org_id LIMIT 1)
    FROM org WHERE org.org_id IS NOT NULL
  )
  SELECT org_id FROM org WHERE org_id IS NOT NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION overdue_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id FROM open_runs o
  WHERE o.deadline <= clock_timestamp() AND o.status <> 'requires_action' ORDER BY o.run_id LIMIT $1;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lost_runs(bigint, interval)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id FROM open_runs o
  WHERE o.dispatched AND o.status = 'running' AND o.lease_until < clock_timestamp()
    AND pg_postmaster_start_time() < clock_timestamp() - $2
  ORDER BY o.run_id LIMIT $1;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION unclaimed_runs(bigint)
  RETURNS TABLE (run_id text, org_id text, lane text, dedupe text, dispatch_no int, reply_to text, traceparent text, dispatched_at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent, o.dispatched_at FROM open_runs o
  WHERE o.dispatched AND o.status = 'queued' AND o.next_dispatch_at <= clock_timestamp() ORDER BY o.run_id LIMIT $1;
END $$;
-- +goose StatementEnd
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
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION open_budget(b budgets, since date) RETURNS boolean
  LANGUAGE plpgsql AS $$
DECLARE
  made boolean;
BEGIN
  IF EXISTS (SELECT FROM budget_counts c WHERE c.budget_id = b.id AND c.starts_on = since) THEN
    RETURN false;
  END IF;
  INSERT INTO budget_counts (budget_id, starts_on, org_id, used) VALUES (b.id, since, b.org_id, budget_seed(b, since)) ON CONFLICT DO NOTHING;
  made := FOUND;
  DELETE FROM budget_counts c WHERE c.budget_id = b.id AND c.reserved = 0
    AND c.starts_on < budget_start(b.period, (since - 1)::timestamp AT TIME ZONE 'UTC');
  RETURN made;
END $$;
-- +goose StatementEnd
DROP FUNCTION IF EXISTS accept_single_runs_2, accept_runs_3, end_lane_runs, count_dispatched, dispatch_runs, find_waiting_lanes, release_delayed_runs,
  count_backlogs;
DROP TABLE IF EXISTS waiting_lanes;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_dispatched_lane;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_waiting_lane;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_waiting_lane_sessions;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_delayed;

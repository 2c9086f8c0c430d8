-- +goose NO TRANSACTION
-- +goose Up
-- The statements that most runs pass through, with as little in them as these runs need: those of before stay, for what these do not
-- take and for binaries of the release before. Rows come as one array of a type of their own, which is read once.

-- +goose StatementBegin
DO $$
BEGIN
  IF to_regtype('new_run') IS NULL THEN
    CREATE TYPE new_run AS (id text, org_id text, agent_id text, caller_kind text, principal text, session_id text, session_key bytea,
      trigger_type text, automation_id text, key text, key_hash bytea, fingerprint bytea, input json, lane text, dedupe text, reply_to text,
      traceparent text, retention int, deadline int, key_id text, org_no int, turn int);
  END IF;
  IF to_regtype('run_ending') IS NULL THEN
    CREATE TYPE run_ending AS (id text, fence bigint, status text, result text, answer text, attempts int, input_tokens bigint,
      output_tokens bigint, cost_micros bigint, finished_at timestamptz, expires_at timestamptz, started_at timestamptz, end_fence bigint,
      end_n int, sandbox_ms bigint, first_n int, last_n int, events text);
  END IF;
END $$;
-- +goose StatementEnd
GRANT USAGE ON SEQUENCE sessions_ref_seq TO parley_app;

-- Accepts runs of agents, each in a session of its own that nobody has named before, to start at once: accept_runs_2 of 0015_hooks.sql for
-- most. Runs, their organizations without repetition (org_no counts from 1), the window, and the time until the first suspicion.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION accept_single_runs(new_run[], text[], bigint, interval)
  RETURNS TABLE (run_id text, created_at timestamptz, dispatched boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
BEGIN
  RETURN QUERY
  WITH used AS (
    SELECT ARRAY(SELECT (SELECT count(*) FROM (SELECT 1 FROM open_runs d WHERE d.org_id = o.org_id AND d.dispatched LIMIT $3) counted)
      FROM unnest($2) WITH ORDINALITY AS o (org_id, n) ORDER BY o.n) AS places
  ), inserted AS (
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
      (SELECT places FROM used)[u.org_no] + row_number() OVER (PARTITION BY u.org_no ORDER BY u.turn) <= $3 AS dispatch
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
  )
  SELECT id, created_at, dispatch FROM fresh;
END $$;
-- +goose StatementEnd

-- Ends runs: finish_runs_2 of 0017_budgets.sql. Endings, their organizations without repetition, and whether any has events that no
-- checkpoint holds. The open row goes and the run's row gets its ending, or neither: the fence decides. The endings come in the order of
-- their ids, and open rows are found by these, one by one or along their index: they are locked in that order, as by all other statements.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION end_runs(run_ending[], text[], boolean)
  RETURNS TABLE (run_id text, org_id text, place boolean)
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
    RETURNING o.org_id, o.dispatched, e.*
  ), saved AS (
    UPDATE runs r SET status = c.status, result = c.result, answer = c.answer, attempts = c.attempts, input_tokens = c.input_tokens,
      output_tokens = c.output_tokens, cost_micros = c.cost_micros, finished_at = c.finished_at, expires_at = c.expires_at,
      started_at = c.started_at, end_fence = c.end_fence, end_n = c.end_n, sandbox_ms = c.sandbox_ms
    FROM closed c WHERE r.id = c.id
  )
  SELECT c.id, c.org_id, c.dispatched AND EXISTS (SELECT 1 FROM open_runs w
    WHERE w.org_id = c.org_id AND w.status = 'queued' AND NOT w.dispatched) FROM closed c;
END $$;
-- +goose StatementEnd
-- +goose Down
DROP FUNCTION IF EXISTS accept_single_runs, end_runs;
DROP TYPE IF EXISTS new_run, run_ending;
REVOKE USAGE ON SEQUENCE sessions_ref_seq FROM parley_app;

-- Accepts runs of agents that begin a new session and are not delayed. Most runs are accepted by
-- this function, with the arguments of accept_runs. org_no is the position of the run's
-- organization in $2, counted from 1. Rows of waiting_lanes are locked last, in order.
--
-- Called by queuedb.Accept for the runs of a batch that meet these conditions. As in accept_runs, a
-- run is not returned if its agent is missing or refuses the caller, or if another run has its key.
DROP FUNCTION IF EXISTS accept_single_runs(new_run[], text[], int[], interval);
CREATE OR REPLACE FUNCTION accept_single_runs(new_run[], text[], int[], interval)
  RETURNS TABLE (run_id text, created_at timestamptz, dispatched boolean, version int)
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
    RETURNING id, session_ref, created_at, config_version
  ), fresh AS (
    SELECT u.*, i.session_ref, i.created_at, i.config_version,
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
  SELECT id, created_at, dispatch, config_version FROM fresh;
END $$;

-- Stores runs that have finished before they were accepted, and returns the ids of those that it stored. $1 are the runs, $2
-- their organizations without repetition. A run that is not stored must be accepted in the ordinary way, because:
--
-- - another run has its id or its idempotency key, or
-- - its agent is missing, refuses the caller, or has changed since the run began, or
-- - its organization has budgets or gets notifications, which only an ordinary finish serves, or
-- - its times are not close to the database's clock.
CREATE OR REPLACE FUNCTION insert_finished_runs(late_run[], text[])
  RETURNS TABLE (run_id text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
  plain text[] := ARRAY(SELECT o FROM unnest($2) o WHERE NOT EXISTS (SELECT FROM budgets b WHERE b.org_id = o)
    AND NOT EXISTS (SELECT FROM notification_endpoints e WHERE e.org_id = o AND e.enabled));
BEGIN
  RETURN QUERY
  WITH inserted AS (
    INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind,
      trigger_type, automation_id, idempotency_key, idempotency_hash, fingerprint, input, retention, sweep_after, created_at, key_id,
      status, result, answer, attempts, input_tokens, output_tokens, cost_micros, finished_at, expires_at, started_at, end_fence, end_n)
    SELECT u.id, u.org_id, u.agent_id, u.config_version, nextval('sessions_ref_seq'), 1, u.session_id, u.principal, u.caller_kind,
      u.trigger_type, u.automation_id, u.key, u.key_hash, u.fingerprint, u.input, u.retention,
      CASE WHEN u.retention > 0 THEN now() + make_interval(secs => u.retention) END, u.created_at, u.key_id,
      u.status, u.result, u.answer, 1, u.input_tokens, u.output_tokens, u.cost_micros, u.finished_at, u.expires_at, u.started_at, 1, u.end_n
    FROM unnest($1) u JOIN agents a ON a.id = u.agent_id AND a.org_id = u.org_id AND a.deleted_at IS NULL
      AND a.version = u.config_version AND u.caller_kind = ANY (a.allowed_callers)
    WHERE u.org_id = ANY (plain) AND u.created_at > clock_timestamp() - interval '5 seconds'
      AND u.finished_at < clock_timestamp() + interval '1 second'
    ORDER BY u.key_hash, u.id
    ON CONFLICT DO NOTHING
    RETURNING id, session_ref
  ), session AS (
    INSERT INTO sessions (ref, key, org_id, target_id, principal, session_id, last_seq) OVERRIDING SYSTEM VALUE
    SELECT i.session_ref, u.session_key, u.org_id, u.agent_id, u.principal, u.session_id, 1 FROM unnest($1) u JOIN inserted i ON i.id = u.id
  )
  SELECT id FROM inserted;
END $$;

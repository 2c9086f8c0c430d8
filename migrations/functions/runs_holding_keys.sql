-- Returns the live runs that hold idempotency keys. $1 contains organizations, and $2 the hashes of
-- keys.
DROP FUNCTION IF EXISTS runs_holding_keys(text[], bytea[]);
CREATE OR REPLACE FUNCTION runs_holding_keys(text[], bytea[])
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz, required_action json,
    previous_run text, config_version int)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
    r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
    r.status IS NOT NULL AS ended, r.result, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
    coalesce(o.started_at, r.started_at) AS started_at, r.finished_at, r.expires_at, o.required_action,
    r.previous_run, r.config_version
  FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id
  WHERE r.idempotency_hash = ANY ($2) AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp());
END $$;

-- Returns the runs among $2, of the organizations $1, that wait for a person.
DROP FUNCTION IF EXISTS parked_runs(text[], text[]);
CREATE OR REPLACE FUNCTION parked_runs(text[], text[])
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz, required_action json,
    config_version int)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
    r.idempotency_key, r.idempotency_hash, r.fingerprint, o.status, false AS ended, r.result, o.attempts, r.created_at,
    o.started_at, r.finished_at, r.expires_at, o.required_action, r.config_version
  FROM open_runs o JOIN runs r ON r.id = o.run_id
  WHERE o.run_id = ANY ($2) AND o.required_action IS NOT NULL;
END $$;

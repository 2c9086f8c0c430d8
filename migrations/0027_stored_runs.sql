-- +goose Up
-- stored_run has the columns from which the service makes the run object. Functions return its rows. The columns of the type
-- have the default collation, as those of earlier results of these functions had: the prepared statements of the previous release
-- fail if the collation of a result changes.
CREATE TYPE stored_run AS (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
  automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
  attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz, required_action json,
  previous_run text, config_version int);

-- stored_runs has a row for each run, open or finished, with the columns of stored_run. The policies of the tables apply to the
-- caller.
CREATE OR REPLACE VIEW stored_runs WITH (security_invoker = true) AS
SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
  r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
  r.status IS NOT NULL AS ended, r.result, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
  coalesce(o.started_at, r.started_at) AS started_at, r.finished_at, r.expires_at, o.required_action,
  coalesce(r.previous_run, CASE WHEN r.seq > 1 THEN (SELECT p.id FROM runs p
    WHERE p.session_ref = r.session_ref AND p.seq < r.seq ORDER BY p.seq DESC LIMIT 1) END) AS previous_run, r.config_version
FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id;
GRANT SELECT ON stored_runs TO parley_app;

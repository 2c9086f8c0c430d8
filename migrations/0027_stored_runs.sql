-- +goose Up
-- stored_runs has a row for each run, open or finished, with the columns from which the service makes the run object.
-- Functions return rows of it. The policies of the tables apply to the caller.
CREATE OR REPLACE VIEW stored_runs WITH (security_invoker = true) AS
SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
  r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
  r.status IS NOT NULL AS ended, r.result, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
  coalesce(o.started_at, r.started_at) AS started_at, r.finished_at, r.expires_at, o.required_action,
  coalesce(r.previous_run, CASE WHEN r.seq > 1 THEN (SELECT p.id FROM runs p
    WHERE p.session_ref = r.session_ref AND p.seq < r.seq ORDER BY p.seq DESC LIMIT 1) END) AS previous_run, r.config_version
FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id;
GRANT SELECT ON stored_runs TO parley_app;

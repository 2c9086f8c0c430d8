-- Returns event logs of runs. $1 contains organizations and $2 their runs. $3 and $4 are the fence
-- and number of the last event that the reader has, and $5 limits the bytes of the batch. Logs that
-- do not fit are returned with deferred set, without chunks and result. The first log and small
-- logs always fit.
--
-- Called by executiondb.EventLogs for the streams that an ingress opens. The column place is the
-- position of the log in the arguments, counted from 1. A run that is missing from the result does
-- not exist, has expired or was erased. Takes no row locks.
DROP FUNCTION IF EXISTS event_logs_that_fit(text[], text[], bigint[], int[], bigint);
CREATE OR REPLACE FUNCTION event_logs_that_fit(text[], text[], bigint[], int[], bigint)
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz, required_action json,
    previous_run text, config_version int, place bigint, end_fence bigint, end_n int, fence bigint, first_ns int[], last_ns int[], chunks text[], deferred boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
    r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
    r.status IS NOT NULL AS ended, CASE WHEN z.fits THEN r.result END AS result, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
    coalesce(o.started_at, r.started_at,
      CASE WHEN r.end_fence IS NULL AND r.result IS NOT NULL AND z.fits
        THEN (r.result::json->>'startedAt')::timestamptz END) AS started_at, r.finished_at, r.expires_at, o.required_action,
    coalesce(r.previous_run, CASE WHEN r.seq > 1 THEN preceding_run(r.session_ref, r.seq) END) AS previous_run, r.config_version,
    z.place, CASE WHEN r.status IS NULL THEN 0 ELSE coalesce(r.end_fence, z.fence + 1, 1) END AS end_fence,
    CASE WHEN r.status IS NULL THEN 0 ELSE coalesce(r.end_n, CASE WHEN z.fence IS NOT NULL THEN 1 WHEN r.answer IS NULL THEN 2 ELSE 3 END) END AS end_n,
    coalesce(z.fence, 0) AS fence, l.first_ns, l.last_ns, l.chunks, NOT z.fits AS deferred
  FROM (
    SELECT w.*, f.fence, row_number() OVER p = 1 OR coalesce(octet_length(r.result), 0) + b.bytes <= 65536
      OR sum(coalesce(octet_length(r.result), 0) + b.bytes) OVER p <= $5 AS fits
    FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS w (org_id, run_id, after_fence, after_n, place)
    JOIN runs r ON r.id = w.run_id AND r.org_id = w.org_id
    LEFT JOIN LATERAL (SELECT e.fence FROM run_events e WHERE e.run_id = r.id ORDER BY e.run_id DESC, e.fence DESC LIMIT 1) f ON true
    CROSS JOIN LATERAL (SELECT coalesce(sum(octet_length(e.events)), 0) AS bytes FROM run_events e
      WHERE e.run_id = r.id AND e.fence = f.fence AND (e.fence, e.last_n) > (w.after_fence, w.after_n)) b
    WINDOW p AS (ORDER BY w.place)) z
  JOIN runs r ON r.id = z.run_id AND r.org_id = z.org_id
  LEFT JOIN open_runs o ON o.run_id = r.id
  CROSS JOIN LATERAL (
    SELECT array_agg(c.first_n) AS first_ns, array_agg(c.last_n) AS last_ns, array_agg(c.events) AS chunks FROM (
      SELECT e.first_n, e.last_n, e.events FROM run_events e
      WHERE z.fits AND e.run_id = r.id AND e.fence = z.fence AND (e.fence, e.last_n) > (z.after_fence, z.after_n) ORDER BY e.first_n) c) l
  WHERE (r.expires_at IS NULL OR r.expires_at > clock_timestamp()) AND (r.status IS NULL OR r.result IS NOT NULL);
END $$;

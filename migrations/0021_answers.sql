-- +goose NO TRANSACTION
-- +goose Up
-- Lists show runs in short. What a list shows of a run's result beside its columns is extracted here, so that large results stay in the
-- database. Everything can be repeated, and binaries of the release before work on this schema.

-- Returns a part of a run object, as a JSON object: how many citations it has, its first 129 tool calls by name, status and duration, its usage,
-- its error and its counts. A tool's name is short; a longer one was made up by a model, and is left out. Programs may give U+0000, which
-- PostgreSQL refuses to read: it becomes U+FFFD here.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION run_summary(result text) RETURNS json
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT json_object_agg(f.key, CASE f.key
    WHEN 'citations' THEN to_json(CASE json_typeof(f.value) WHEN 'array' THEN json_array_length(f.value) ELSE 0 END)
    WHEN 'toolCalls' THEN (
      SELECT coalesce(json_agg(json_build_object('status', c.call->'status', 'durationMs', c.call->'durationMs', 'name',
        CASE WHEN octet_length((c.call->'name')::text) <= 1000 THEN c.call->'name' ELSE '"(too long a name)"' END) ORDER BY c.n), '[]')
      FROM json_array_elements(CASE json_typeof(f.value) WHEN 'array' THEN f.value ELSE '[]' END) WITH ORDINALITY AS c (call, n)
      WHERE c.n <= 129)
    ELSE f.value END)
  FROM json_each(replace($1, '\u0000', '\ufffd')::json) f
  WHERE f.key IN ('citations', 'toolCalls', 'usage', 'error', 'omittedTurns', 'citationsRemoved')
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE runs ADD COLUMN IF NOT EXISTS summary json; -- of a result that is too large to be read for each list; else null
END $$;
-- +goose StatementEnd

-- Keeps the summary of a large result beside it, and removes it with the result. To read one for a list takes 10 ms a MiB.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_keep_summary() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  NEW.summary := run_summary(NEW.result);
  RETURN NEW;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS runs_keep_summary ON runs;
  CREATE TRIGGER runs_keep_summary BEFORE UPDATE OF result ON runs
    FOR EACH ROW WHEN (octet_length(NEW.result) > 65536 OR NEW.summary IS NOT NULL) EXECUTE FUNCTION runs_keep_summary();
END $$;
-- +goose StatementEnd

-- The large results there are, some at a time. Until this is done, lists read them.
-- +goose StatementBegin
DO $$
DECLARE
  after text := '';
  last text;
BEGIN
  LOOP
    SELECT max(id) INTO last FROM (SELECT id FROM runs WHERE id > after ORDER BY id LIMIT 5000) batch;
    EXIT WHEN last IS NULL;
    WITH large AS MATERIALIZED (
      SELECT id FROM runs WHERE id > after AND id <= last AND octet_length(result) > 65536 AND summary IS NULL ORDER BY id FOR UPDATE SKIP LOCKED
    )
    UPDATE runs r SET summary = run_summary(r.result) FROM large l WHERE r.id = l.id;
    COMMIT;
    after := last;
  END LOOP;
END $$;
-- +goose StatementEnd
-- Reads event logs: event_logs_of_runs of 0008_effects.sql, with a bound on the bytes of a batch. Arguments as there, and the bound. The logs
-- that do not fit are marked as deferred, and come without chunks and result. The first one always fits, and so do small ones.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION event_logs_that_fit(text[], text[], bigint[], int[], bigint)
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz, required_action json,
    place bigint, end_fence bigint, end_n int, fence bigint, first_ns int[], last_ns int[], chunks text[], deferred boolean)
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
-- +goose StatementEnd
-- +goose Down
DROP FUNCTION IF EXISTS event_logs_that_fit;
DROP TRIGGER IF EXISTS runs_keep_summary ON runs;
DROP FUNCTION IF EXISTS runs_keep_summary, run_summary;
ALTER TABLE runs DROP COLUMN IF EXISTS summary;

package store

// The joins below are on single columns, and both checks hide from the planner that they are anti joins:
// otherwise it expects one row and compares each row of the batch with each other, or reads all open runs.
const acceptQuery = `
WITH batch AS MATERIALIZED (
  SELECT id, org_id, nullif(agent_id, '') AS agent_id, nullif(template_id, '') AS template_id, caller_kind, principal,
    session_id, session_key, trigger_type, nullif(automation_id, '') AS automation_id, nullif(key, '') AS key,
    nullif(key_hash, '') AS key_hash, nullif(fingerprint, '') AS fingerprint, input, lane, dedupe, reply_to, traceparent,
    retention, deadline, n
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::text[], $10::text[],
    $11::text[], $12::bytea[], $13::bytea[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::int[], $20::int[])
    WITH ORDINALITY AS u (id, org_id, agent_id, template_id, caller_kind, principal, session_id, session_key, trigger_type,
    automation_id, key, key_hash, fingerprint, input, lane, dedupe, reply_to, traceparent, retention, deadline, n)
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
), used AS MATERIALIZED (
  SELECT org_id, (SELECT count(*) FROM (SELECT 1 FROM open_runs d WHERE d.org_id = o.org_id AND d.dispatched LIMIT $21) counted) AS places
  FROM (SELECT DISTINCT org_id FROM eligible) o
), numbered AS (
  SELECT e.*, s.ref, row_number() OVER in_order AS turn,
    s.last_seq - count(*) OVER (PARTITION BY e.session_key) + row_number() OVER in_order AS seq
  FROM eligible e JOIN session s ON s.key = e.session_key
  WINDOW in_order AS (PARTITION BY e.session_key ORDER BY e.n)
), headed AS MATERIALIZED (
  SELECT *, turn = 1 AND (seq = 1 OR 
    (SELECT p.seq FROM open_runs p WHERE p.session_ref = numbered.ref LIMIT 1) IS NULL) AS head
  FROM numbered
), placed AS MATERIALIZED (
  SELECT h.*, h.head AND u.places + count(*) FILTER (WHERE h.head) OVER (PARTITION BY h.org_id ORDER BY h.n) <= $21 AS dispatch
  FROM headed h JOIN used u ON u.org_id = h.org_id
), inserted AS (
  INSERT INTO runs (id, org_id, agent_id, template_id, config_version, session_ref, seq, session_id, principal, caller_kind,
    trigger_type, automation_id, idempotency_key, idempotency_hash, fingerprint, input, retention, sweep_after, created_at)
  SELECT id, org_id, agent_id, template_id, config_version, ref, seq, session_id, principal, caller_kind, trigger_type,
    automation_id, key, key_hash, fingerprint, input::json, retention,
    CASE WHEN retention > 0 THEN now() + make_interval(secs => retention) END, date_trunc('milliseconds', clock_timestamp())
  FROM placed ORDER BY key_hash, id
  ON CONFLICT (idempotency_hash) WHERE idempotency_hash IS NOT NULL DO NOTHING
  RETURNING id, created_at
), opened AS (
  INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dispatched_at,
    next_dispatch_at, dedupe, reply_to, traceparent, deadline)
  SELECT i.id, p.org_id, p.agent_id, p.ref, p.seq, p.lane, 'queued', p.dispatch, p.dispatch::int,
    CASE WHEN p.dispatch THEN clock_timestamp() END, CASE WHEN p.dispatch THEN clock_timestamp() + $22::interval END,
    p.dedupe, p.reply_to, p.traceparent, i.created_at + make_interval(secs => p.deadline)
  FROM inserted i JOIN placed p ON p.id = i.id
)
SELECT i.id AS run_id, i.created_at, p.dispatch AS dispatched FROM inserted i JOIN placed p ON p.id = i.id`

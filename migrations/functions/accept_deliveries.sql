-- Logs new deliveries and accepts their runs in one statement, in place of log_deliveries and
-- accept_single_runs. It handles the most frequent deliveries: each starts no run, or a run of an
-- agent in a new session, without delay. Returns the positions in the arguments, counted from 1, of
-- the deliveries that were written. A delivery is not written if it was logged before, if its hook
-- or agent does not exist, or if the agent refuses the caller.
--
-- $1 to $17 have one element for each group of deliveries that share these values: hook,
-- organization, and the runs' agent, kind of caller, principal, type of trigger, automation, key,
-- lane, and retention and deadline in seconds; the deliveries' status, event, content type, and code
-- and message of the error; and the number of free slots in the lane. $18 is the position of each
-- delivery's group, counted from 1. $19 to $24 have one element for each delivery: id, size, and the
-- run's id, session, stable part of the message ids, and trace. A delivery without a run has the run
-- ''.
--
-- Bodies, inputs and hashes are long. Elements of an array are parsed character by character, so
-- these values are concatenated. $25 to $28 have one element for each delivery: the start of its body
-- in $29, counted from 1, and the size of the body; the start of its run's input in $30, and the size
-- of the input. All four count bytes. $31 has 64 bytes for each delivery: the hashes of the session's
-- key and of the idempotency key. $32 says whether bodies are sealed, and $33 is the time until the
-- first redispatch.
--
-- Deliveries are numbered in the order of the arguments and locked in the order of their keys. Rows
-- of waiting_lanes are locked last.
--
-- Called by queuedb.AcceptDeliveries for each batch of simple deliveries. Locks only the rows that
-- it inserts, and waits for transactions that insert the same keys. A budget without room raises
-- the error of runs_within_budgets.
DROP FUNCTION IF EXISTS accept_deliveries(text[], text[], text[], text[], text[], text[], text[], text[], text[], int[], int[],
    int[], text[], text[], text[], text[], bigint[], bytea[], text[], text[],
    text[], text[], text[], bytea[], bytea[], text[], text[], int[], boolean, interval);
DROP FUNCTION IF EXISTS accept_deliveries(text[], text[], text[], text[], text[], text[], text[], text[], text[], int[], int[],
    text[], text[], text[], text[], text[], int[],
    int[], text[], bigint[], text[], text[], text[], text[], int[], int[], int[], int[], bytea, text, bytea, boolean, interval);
CREATE OR REPLACE FUNCTION accept_deliveries(text[], text[], text[], text[], text[], text[], text[], text[], text[], int[], int[],
    text[], text[], text[], text[], text[], int[],
    int[], text[], bigint[], text[], text[], text[], text[], int[], int[], int[], int[], bytea, text, bytea, boolean, interval)
  RETURNS TABLE (place bigint, received_at timestamptz, created_at timestamptz, dispatched boolean, version int)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
  inputs bytea := convert_to($30, 'UTF8'); -- bytea: substring uses byte offsets and does not count characters
BEGIN
  RETURN QUERY
  WITH sent AS MATERIALIZED (
    SELECT d.*, nextval('deliveries_ref') AS ref, date_trunc('milliseconds', clock_timestamp()) AS received_at
    FROM unnest($18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28) WITH ORDINALITY AS d
      (of_origin, delivery_id, bytes, run_id, session_id, dedupe, traceparent, body_at, body_size, input_at, input_size, n)
  ), eligible AS MATERIALIZED (
    SELECT c.*, a.version, s.*
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) WITH ORDINALITY AS c
        (hook_id, org_id, agent_id, caller_kind, principal, trigger_type, automation_id, key_id, lane, retention, deadline,
         status, event, content_type, error_code, error_message, slots, origin)
      JOIN hooks h ON h.id = c.hook_id AND h.org_id = c.org_id AND h.deleted_at IS NULL
      LEFT JOIN agents a ON a.id = c.agent_id AND a.org_id = c.org_id AND a.deleted_at IS NULL AND c.caller_kind = ANY (a.allowed_callers)
      JOIN sent s ON s.of_origin = c.origin
    WHERE s.run_id = '' OR a.version IS NOT NULL
  ), logged AS (
    INSERT INTO deliveries (hook_id, delivery_id, ref, org_id, status, event, run_id, bytes, body, sealed, content_type, error_code, error_message,
      received_at)
    SELECT hook_id, delivery_id, ref, org_id, status, event, nullif(run_id, ''), bytes,
      CASE WHEN body_size > 0 THEN substring($29 FROM body_at FOR body_size) END, $32, content_type,
      nullif(error_code, ''), nullif(error_message, ''), received_at
    FROM (SELECT * FROM eligible ORDER BY hook_id COLLATE "C", delivery_id COLLATE "C") e
    ON CONFLICT (hook_id, delivery_id) DO NOTHING
    RETURNING ref
  ), fresh AS MATERIALIZED (
    SELECT e.n, e.run_id, e.org_id, e.agent_id, e.version, e.session_id, e.principal, e.caller_kind, e.trigger_type, e.automation_id,
      e.delivery_id, e.retention, e.deadline, e.key_id, e.lane, e.dedupe, e.traceparent, e.input_at, e.input_size,
      substring($31 FROM (e.n * 64 - 31)::int FOR 32) AS key_hash,
      e.received_at, date_trunc('milliseconds', clock_timestamp()) AS created_at,
      row_number() OVER (PARTITION BY e.org_id, e.lane ORDER BY e.n) <= e.slots AS dispatch,
      CASE WHEN e.run_id <> '' THEN nextval('sessions_ref_seq') END AS session_ref
    FROM eligible e
    -- A join would compare each row with every other, because the planner expects one row. With IS
    -- TRUE, the planner hashes the numbers instead.
    WHERE (e.ref IN (SELECT ref FROM logged)) IS TRUE
  ), inserted AS (
    INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind,
      trigger_type, automation_id, idempotency_key, idempotency_hash, input, retention, sweep_after, created_at, key_id)
    SELECT run_id, org_id, agent_id, version, session_ref, 1, session_id, principal, caller_kind, trigger_type, automation_id,
      delivery_id, key_hash, convert_from(substring(inputs FROM input_at FOR input_size), 'UTF8')::json, retention,
      CASE WHEN retention > 0 THEN now() + make_interval(secs => retention) END, created_at, key_id
    FROM (SELECT * FROM fresh WHERE run_id <> '' ORDER BY key_hash) f
  ), session AS (
    INSERT INTO sessions (ref, key, org_id, target_id, principal, session_id, last_seq) OVERRIDING SYSTEM VALUE
    SELECT session_ref, substring($31 FROM (n * 64 - 63)::int FOR 32), org_id, agent_id, principal, session_id, 1
    FROM fresh WHERE run_id <> ''
  ), opened AS (
    INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dispatched_at,
      next_dispatch_at, dedupe, reply_to, traceparent, deadline)
    SELECT run_id, org_id, agent_id, session_ref, 1, lane, 'queued', dispatch, dispatch::int,
      CASE WHEN dispatch THEN clock_timestamp() END, CASE WHEN dispatch THEN clock_timestamp() + $33 END,
      dedupe, '', traceparent, created_at + make_interval(secs => deadline)
    FROM fresh WHERE run_id <> ''
  ), waiting AS (
    INSERT INTO waiting_lanes (org_id, lane, oldest)
    SELECT org_id, lane, min(run_id) FROM fresh WHERE run_id <> '' AND NOT dispatch GROUP BY org_id, lane ORDER BY org_id COLLATE "C", lane
    ON CONFLICT DO NOTHING
  )
  SELECT n, received_at, created_at, dispatch, coalesce(version, 0) FROM fresh;
END $$;

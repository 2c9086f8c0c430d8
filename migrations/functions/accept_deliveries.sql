-- Logs new deliveries and accepts their runs in one statement, in place of log_deliveries and
-- accept_single_runs. It handles the most frequent deliveries: each starts no run, or a run of an
-- agent in a new session, without delay. Returns one row: the time of acceptance, and the positions in the
-- arguments, counted from 1, of the deliveries that were written and of those whose runs were
-- dispatched. A delivery is not written if it was logged before, if its hook or agent does not
-- exist, or if the agent refuses the caller.
--
-- The arguments from hook_ids to error_messages have one element for each group of deliveries
-- that share these values. retentions and deadlines are in seconds. The arguments from origins to dispatches
-- have one element for each delivery; origins has the position of its group, counted from 1, and
-- dispatches is true if its run gets a slot that the caller has taken. A delivery without a run has the run ''.
--
-- Bodies, inputs and hashes are long. Elements of an array are parsed character by character, so
-- these values are concatenated. body_starts has the start of each delivery's body in bodies,
-- counted in bytes from 1, and as its last element the end of bodies; input_starts has the same for
-- the run's input in inputs. hashes has 64 bytes for each delivery: the hashes of the session's key
-- and of the idempotency key. sealed_bodies says whether bodies are sealed, and redispatch_after is
-- the time until the first redispatch.
--
-- The rows that steps of the statement pass on contain only positions and numbers. The INSERTs read
-- all other values from the arguments, because each copy of a wide row costs more than a subscript.
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
DROP FUNCTION IF EXISTS accept_deliveries(text[], text[], text[], text[], text[], text[], text[], text[], text[], int[], int[],
    text[], text[], text[], text[], text[],
    int[], text[], bigint[], text[], text[], text[], text[], boolean[], int[], int[], bytea, text, bytea, boolean, interval);
CREATE OR REPLACE FUNCTION accept_deliveries(
    hook_ids text[], org_ids text[], agent_ids text[], caller_kinds text[], principals text[], trigger_types text[],
    automation_ids text[], key_ids text[], lanes text[], retentions int[], deadlines int[], statuses text[], events text[],
    content_types text[], error_codes text[], error_messages text[], origins int[], delivery_ids text[], sizes bigint[],
    run_ids text[], session_ids text[], dedupes text[], traceparents text[], dispatches boolean[], body_starts int[], input_starts int[],
    bodies bytea, inputs text, hashes bytea, sealed_bodies boolean, redispatch_after interval,
    OUT accepted_at timestamptz, OUT written int[], OUT dispatched int[])
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for(org_ids);
  input_bytes bytea := convert_to(inputs, 'UTF8'); -- substring of bytea uses byte offsets and does not count characters
  -- The version of each group's agent. Null: the hook does not exist. 0: the agent does not exist or
  -- refuses the caller.
  versions int[];
BEGIN
  accepted_at := date_trunc('milliseconds', clock_timestamp());
  versions := ARRAY(
    SELECT CASE WHEN h.id IS NOT NULL THEN coalesce(a.version, 0) END
    FROM unnest(hook_ids, org_ids, agent_ids, caller_kinds) WITH ORDINALITY AS g (hook_id, org_id, agent_id, caller_kind, origin)
      LEFT JOIN hooks h ON h.id = g.hook_id AND h.org_id = g.org_id AND h.deleted_at IS NULL
      LEFT JOIN agents a ON a.id = g.agent_id AND a.org_id = g.org_id AND a.deleted_at IS NULL AND g.caller_kind = ANY (a.allowed_callers)
    ORDER BY g.origin);

  WITH eligible AS MATERIALIZED (
    SELECT n::int AS n, origin, nextval('deliveries_ref') AS ref
    FROM unnest(origins) WITH ORDINALITY AS d (origin, n)
    WHERE versions[origin] > 0 OR versions[origin] = 0 AND run_ids[n::int] = ''
  ), logged AS (
    INSERT INTO deliveries (hook_id, delivery_id, ref, org_id, status, event, run_id, bytes, body, sealed, content_type, error_code,
      error_message, received_at)
    SELECT hook_ids[origin], delivery_ids[n], ref, org_ids[origin], statuses[origin], events[origin], nullif(run_ids[n], ''), sizes[n],
      CASE WHEN body_starts[n + 1] > body_starts[n] THEN
        substring(bodies FROM body_starts[n] FOR body_starts[n + 1] - body_starts[n]) END, sealed_bodies, content_types[origin],
      nullif(error_codes[origin], ''), nullif(error_messages[origin], ''), accepted_at
    FROM (SELECT * FROM eligible ORDER BY hook_ids[origin] COLLATE "C", delivery_ids[n] COLLATE "C") e
    ON CONFLICT (hook_id, delivery_id) DO NOTHING
    RETURNING ref
  ), fresh AS MATERIALIZED (
    SELECT e.n, e.origin, dispatches[e.n] AS dispatch, CASE WHEN run_ids[e.n] <> '' THEN nextval('sessions_ref_seq') END AS session_ref
    FROM eligible e
    -- A join would compare each row with every other, because the planner expects few rows. With IS
    -- TRUE, the planner hashes the numbers instead.
    WHERE (e.ref IN (SELECT ref FROM logged)) IS TRUE
  ), inserted AS (
    INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind,
      trigger_type, automation_id, idempotency_key, idempotency_hash, input, retention, sweep_after, created_at, key_id)
    SELECT run_ids[n], org_ids[origin], agent_ids[origin], versions[origin], session_ref, 1, session_ids[n], principals[origin],
      caller_kinds[origin], trigger_types[origin], automation_ids[origin], delivery_ids[n], key_hash,
      convert_from(substring(input_bytes FROM input_starts[n] FOR input_starts[n + 1] - input_starts[n]), 'UTF8')::json, retentions[origin],
      CASE WHEN retentions[origin] > 0 THEN now() + make_interval(secs => retentions[origin]) END, accepted_at, key_ids[origin]
    FROM (
      SELECT n, origin, session_ref, substring(hashes FROM n * 64 - 31 FOR 32) AS key_hash
      FROM fresh WHERE session_ref IS NOT NULL ORDER BY key_hash
    ) f
  ), session AS (
    INSERT INTO sessions (ref, key, org_id, target_id, principal, session_id, last_seq) OVERRIDING SYSTEM VALUE
    SELECT session_ref, substring(hashes FROM n * 64 - 63 FOR 32), org_ids[origin], agent_ids[origin], principals[origin], session_ids[n], 1
    FROM fresh WHERE session_ref IS NOT NULL
  ), opened AS (
    INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dispatched_at,
      next_dispatch_at, dedupe, reply_to, traceparent, deadline)
    SELECT run_ids[n], org_ids[origin], agent_ids[origin], session_ref, 1, lanes[origin], 'queued', dispatch, dispatch::int,
      CASE WHEN dispatch THEN accepted_at END, CASE WHEN dispatch THEN accepted_at + redispatch_after END,
      dedupes[n], '', traceparents[n], accepted_at + make_interval(secs => deadlines[origin])
    FROM fresh WHERE session_ref IS NOT NULL
  ), waiting AS (
    INSERT INTO waiting_lanes (org_id, lane, oldest)
    SELECT org_ids[origin], lanes[origin], min(run_ids[n] COLLATE "C") FROM fresh WHERE session_ref IS NOT NULL AND NOT dispatch
    GROUP BY 1, 2 ORDER BY org_ids[origin] COLLATE "C", lanes[origin]
    ON CONFLICT DO NOTHING
  )
  SELECT array_agg(n), array_agg(n) FILTER (WHERE dispatch) INTO written, dispatched FROM fresh;
END $$;

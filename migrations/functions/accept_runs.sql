-- Accepts runs and returns those that were inserted. $1 contains the runs, and $2 their
-- organizations without repetition. A run's turn is its position in the batch, counted from 0.
-- $3[turn + 1] is the number of free slots in the run's lane. $4 is the time until the first
-- redispatch. $5[turn + 1] is the run's previous_run. A run's hold is its delay in milliseconds: 0
-- for none, -1 until it is released.
--
-- A run is not returned if its agent is missing or refuses the caller, or if another run has its
-- idempotency key. The caller has counted the free slots. A run takes none if it is delayed or if
-- it waits for a run of its session. The deadline of a delayed run is later by the delay.
--
-- A run without previous_run waits for all earlier runs of its session, and continues the last one:
-- see preceding_run. Any other run waits only for the run that it continues.
--
-- Each join uses a single column. The checks for an existing key and for open runs are written so
-- that the planner does not recognize them as anti joins. Otherwise it expects one row and compares
-- each row of the batch with every other, or reads all open runs.
--
-- Called by queuedb.Accept and, for deliveries, by queuedb.AcceptDeliveries. Locks the rows of the
-- sessions in the order of their keys, then the new rows, then rows of waiting_lanes. A budget
-- without room raises the error of runs_within_budgets.
DROP FUNCTION IF EXISTS accept_runs(new_run[], text[], int[], interval);
DROP FUNCTION IF EXISTS accept_runs(new_run[], text[], int[], interval, text[]);
CREATE OR REPLACE FUNCTION accept_runs(new_run[], text[], int[], interval, text[] DEFAULT '{}')
  RETURNS TABLE (run_id text, created_at timestamptz, dispatched boolean, version int, session_ref bigint, seq int)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
BEGIN
  RETURN QUERY
  WITH batch AS MATERIALIZED (
    SELECT id, org_id, agent_id, template_id, caller_kind, principal, session_id, session_key, trigger_type, automation_id, key, key_hash,
      fingerprint, input, lane, dedupe, reply_to, traceparent, retention, deadline, hold, key_id, turn AS n, ($3)[turn + 1] AS slots,
      ($5)[turn + 1] AS previous
    FROM unnest($1)
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
  ), numbered AS (
    SELECT e.*, s.ref, row_number() OVER in_order AS turn,
      s.last_seq - count(*) OVER (PARTITION BY e.session_key) + row_number() OVER in_order AS seq
    FROM eligible e JOIN session s ON s.key = e.session_key
    WINDOW in_order AS (PARTITION BY e.session_key ORDER BY e.n)
  ), awaiting AS MATERIALIZED (
    SELECT *, CASE WHEN previous IS NOT NULL
      THEN coalesce((SELECT q.seq FROM runs q WHERE q.id = numbered.previous AND q.session_ref = numbered.ref), 0) END AS waits_for
    FROM numbered
  ), headed AS MATERIALIZED (
    SELECT *, hold = 0 AND CASE WHEN waits_for IS NULL
      THEN turn = 1 AND (seq = 1 OR (SELECT p.seq FROM open_runs p WHERE p.session_ref = awaiting.ref LIMIT 1) IS NULL)
      ELSE (SELECT p.seq FROM open_runs p WHERE p.session_ref = awaiting.ref AND p.seq = awaiting.waits_for) IS NULL END AS head
    FROM awaiting
  ), placed AS MATERIALIZED (
    SELECT *, head AND count(*) FILTER (WHERE head) OVER (PARTITION BY org_id, lane ORDER BY n) <= slots AS dispatch FROM headed
  ), inserted AS (
    INSERT INTO runs (id, org_id, agent_id, template_id, config_version, session_ref, seq, session_id, principal, caller_kind,
      trigger_type, automation_id, idempotency_key, idempotency_hash, fingerprint, input, retention, sweep_after, created_at, key_id,
      previous_run)
    SELECT id, org_id, agent_id, template_id, config_version, ref, seq, session_id, principal, caller_kind, trigger_type,
      automation_id, key, key_hash, fingerprint, input, retention,
      CASE WHEN retention > 0 THEN now() + make_interval(secs => retention) END, date_trunc('milliseconds', clock_timestamp()), key_id,
      previous
    FROM placed ORDER BY key_hash, id
    ON CONFLICT (idempotency_hash) WHERE idempotency_hash IS NOT NULL DO NOTHING
    RETURNING id, created_at
  ), opened AS (
    INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dispatched_at,
      next_dispatch_at, not_before, dedupe, reply_to, traceparent, deadline, waits_for)
    SELECT i.id, p.org_id, p.agent_id, p.ref, p.seq, p.lane, 'queued', p.dispatch, p.dispatch::int,
      CASE WHEN p.dispatch THEN clock_timestamp() END, CASE WHEN p.dispatch THEN clock_timestamp() + $4 END,
      CASE WHEN p.hold > 0 THEN i.created_at + make_interval(secs => p.hold / 1000.0) WHEN p.hold < 0 THEN 'infinity' END,
      p.dedupe, p.reply_to, p.traceparent, i.created_at + make_interval(secs => p.deadline + greatest(p.hold, 0) / 1000.0),
      p.waits_for
    FROM inserted i JOIN placed p ON p.id = i.id
  ), waiting AS (
    INSERT INTO waiting_lanes (org_id, lane, oldest)
    SELECT p.org_id, p.lane, min(p.id) FROM inserted i JOIN placed p ON p.id = i.id WHERE NOT p.dispatch AND p.hold = 0
    GROUP BY p.org_id, p.lane ORDER BY p.org_id COLLATE "C", p.lane
    ON CONFLICT DO NOTHING
  )
  SELECT i.id AS run_id, i.created_at, p.dispatch AS dispatched, p.config_version, p.ref, p.seq::int
  FROM inserted i JOIN placed p ON p.id = i.id;
END $$;

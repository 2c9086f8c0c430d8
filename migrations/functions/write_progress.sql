-- Writes steps and effects of runs for their workers, at most one write for each run. The arrays
-- have one element for each write: $1 is the kind, $2 the run, $3 the organization, $4 the fence,
-- $5 the number of a step, $6 the call of an effect, and $7 the JSON of the step, of the call's
-- arguments or of its outcome. $8 to $11 are the name, side effect, key and state of a new effect.
-- For the kinds `begin` and `unsend`, $10 is the sender, because two executions of a call may each
-- try to send it.
--
-- Returns the runs whose write took effect, and for `prepare` also the effect. A run that another
-- transaction has locked is returned with locked set, and nothing was written for it; the caller
-- tries again. For any other run nothing was written, because the worker no longer holds the run or
-- because the effect is not in the state that the write expects.
--
-- Because of FOR SHARE, a claim by another worker either comes first or waits until it can see
-- these writes. The lock also keeps the run from finishing meanwhile. `end` and `unsend` take
-- effect even after the lease was lost, until another attempt takes over the effect.
--
-- Called by executiondb for the batches of a worker. Locks the runs in the order of their ids,
-- without waiting; see FOR SHARE above. An effect's row is locked until the end of the transaction.
CREATE OR REPLACE FUNCTION write_progress(text[], text[], text[], bigint[], int[], text[], text[], text[], text[], text[], text[])
  RETURNS TABLE (run_id text, locked boolean, name text, input json, side_effect text, key text, state text, outcome json, sent boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($3);
BEGIN
  RETURN QUERY
  WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
      AS u (kind, run_id, org_id, fence, n, call_id, content, name, side_effect, key, state)
  ), open AS MATERIALIZED (
    SELECT o.run_id, o.org_id, o.fence, o.status, o.lease_until FROM open_runs o
    WHERE o.run_id = ANY ($2) ORDER BY o.run_id FOR SHARE SKIP LOCKED
  ), mine AS MATERIALIZED (
    SELECT a.*, o.lease_until FROM asked a JOIN open o ON o.run_id = a.run_id AND o.org_id = a.org_id
    WHERE o.fence = a.fence AND o.status = 'running' OR a.kind IN ('end', 'unsend')
    ORDER BY a.run_id
  ), appended AS (
    INSERT INTO steps (run_id, org_id, n, fence, step)
    SELECT run_id, org_id, n, fence, content::json FROM mine WHERE kind = 'step'
    RETURNING run_id
  ), prepared AS (
    -- The primary key makes the effect unique across all attempts of the run. An earlier attempt's
    -- effect that may have been sent becomes ready again if its receiver honours idempotency keys;
    -- otherwise a person must report the outcome. An effect with a final state keeps its fence,
    -- because its state no longer changes.
    INSERT INTO effects AS e (run_id, call_id, org_id, name, input, side_effect, key, state, fence)
    SELECT run_id, call_id, org_id, name, content::json, side_effect, key, state, fence FROM mine WHERE kind = 'prepare'
    ON CONFLICT (run_id, call_id) DO UPDATE SET
      state = CASE
        WHEN e.state = 'void' OR e.state = 'sending' AND e.side_effect <> 'unsafe' THEN 'ready'
        WHEN e.state = 'sending' THEN 'awaiting'
        ELSE e.state END,
      fence = CASE WHEN e.state IN ('done', 'denied', 'happened') THEN e.fence ELSE excluded.fence END
    RETURNING e.*
  ), began AS (
    UPDATE effects e SET state = 'sending', sent_at = clock_timestamp(), sender = m.key FROM mine m
    WHERE m.kind = 'begin' AND e.run_id = m.run_id AND e.call_id = m.call_id AND e.org_id = m.org_id
      AND e.fence = m.fence AND e.state = 'ready' AND m.lease_until > clock_timestamp()
    RETURNING e.run_id
  ), ended AS (
    UPDATE effects e SET state = 'done', outcome = m.content::json FROM mine m
    WHERE m.kind = 'end' AND e.run_id = m.run_id AND e.call_id = m.call_id AND e.org_id = m.org_id
      AND e.fence = m.fence AND e.state = 'sending'
    RETURNING e.run_id
  ), unsent AS (
    UPDATE effects e SET state = 'ready' FROM mine m
    WHERE m.kind = 'unsend' AND e.run_id = m.run_id AND e.call_id = m.call_id AND e.org_id = m.org_id
      AND e.fence = m.fence AND e.state = 'sending' AND e.sender = m.key
    RETURNING e.run_id
  ), voided AS (
    UPDATE effects e SET state = 'void' FROM mine m
    WHERE m.kind = 'void' AND e.run_id = m.run_id AND e.call_id = m.call_id AND e.org_id = m.org_id
      AND e.fence = m.fence AND e.state = 'ready' AND e.sent_at IS NULL
    RETURNING e.run_id
  ), written (run_id) AS (
    SELECT * FROM appended UNION ALL SELECT * FROM began UNION ALL SELECT * FROM ended UNION ALL SELECT * FROM unsent
    UNION ALL SELECT * FROM voided
  )
  SELECT w.run_id, false, NULL, NULL::json, NULL, NULL, NULL, NULL::json, false FROM written w
  UNION ALL
  SELECT p.run_id, false, p.name, p.input, p.side_effect, p.key, p.state, p.outcome, p.sent_at IS NOT NULL FROM prepared p
  UNION ALL
  SELECT a.run_id, true, NULL, NULL, NULL, NULL, NULL, NULL, false
  FROM asked a JOIN open_runs l ON l.run_id = a.run_id AND l.org_id = a.org_id
  WHERE a.run_id NOT IN (SELECT o.run_id FROM open o);
END $$;

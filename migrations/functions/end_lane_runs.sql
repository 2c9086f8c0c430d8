-- Finishes runs and returns those that it finished. $1 contains the results, and $2 their organizations without
-- repetition. $3 says whether any result has events that no checkpoint contains. place is true if the run held a slot of
-- its lane and other runs of its organization may wait for the slot.
--
-- Either the open row is deleted and the run's row gets its result, or nothing changes: the fence decides. The results
-- are sorted by run, and open rows are found by these ids, so rows are locked in the order that all statements use.
CREATE OR REPLACE FUNCTION end_lane_runs(run_ending[], text[], boolean)
  RETURNS TABLE (run_id text, org_id text, lane text, place boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
BEGIN
  IF $3 THEN -- a checkpoint whose reply was lost may have written the same rows
    WITH open AS MATERIALIZED (
      SELECT o.run_id, o.org_id, e.fence, e.first_n, e.last_n, e.events FROM unnest($1) e JOIN open_runs o ON o.run_id = e.id AND o.fence = e.fence
      ORDER BY o.run_id FOR UPDATE OF o
    )
    INSERT INTO run_events (run_id, org_id, fence, first_n, last_n, events)
    SELECT run_id, org_id, fence, first_n, last_n, events FROM open WHERE first_n > 0
    ON CONFLICT (run_id, fence, first_n) DO UPDATE SET last_n = excluded.last_n, events = excluded.events;
  END IF;
  RETURN QUERY
  WITH closed AS (
    DELETE FROM open_runs o USING unnest($1) e WHERE o.run_id = e.id AND o.fence = e.fence
    RETURNING o.org_id, o.lane, o.dispatched, e.*
  ), saved AS (
    UPDATE runs r SET status = c.status, result = c.result, answer = c.answer, attempts = c.attempts, input_tokens = c.input_tokens,
      output_tokens = c.output_tokens, cost_micros = c.cost_micros, finished_at = c.finished_at, expires_at = c.expires_at,
      started_at = c.started_at, end_fence = c.end_fence, end_n = c.end_n, sandbox_ms = c.sandbox_ms
    FROM closed c WHERE r.id = c.id
  )
  SELECT c.id, c.org_id, c.lane, c.dispatched AND EXISTS (SELECT 1 FROM waiting_lanes w WHERE w.org_id = c.org_id) FROM closed c;
END $$;

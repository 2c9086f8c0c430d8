-- Finishes runs and returns those that it finished. $1 contains the results, and $2 their
-- organizations without repetition. $3 says whether any result has events that no checkpoint
-- contains. In a returned row, place is true if the run held a slot of its lane and other runs of
-- its organization may wait for the slot. followers is the number of runs that waited only for the
-- finished run. Only the next 64 open runs of the session are considered, so that a long session
-- does not slow down each finish.
--
-- If the fence of a result is the current one, the open row is deleted and the run's row gets the
-- result. Otherwise nothing changes. The results are sorted by run, and open rows are found by
-- these ids, so rows are locked in the order that all statements use.
--
-- Called by executiondb.Finish. A run that is not returned was not finished: its fence has changed,
-- or it has finished before. The triggers on open_runs then add notifications about the finished
-- runs and record these runs for index_runs.
DROP FUNCTION IF EXISTS end_lane_runs(run_ending[], text[], boolean);
CREATE OR REPLACE FUNCTION end_lane_runs(run_ending[], text[], boolean)
  RETURNS TABLE (run_id text, org_id text, lane text, place boolean, followers int)
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
    RETURNING o.org_id, o.lane, o.dispatched, o.session_ref, o.seq, e.*
  ), saved AS (
    UPDATE runs r SET status = c.status, result = c.result, answer = c.answer, attempts = c.attempts, input_tokens = c.input_tokens,
      output_tokens = c.output_tokens, cost_micros = c.cost_micros, finished_at = c.finished_at, expires_at = c.expires_at,
      started_at = c.started_at, end_fence = c.end_fence, end_n = c.end_n, sandbox_ms = c.sandbox_ms
    FROM closed c WHERE r.id = c.id
  ), finished AS MATERIALIZED (
    SELECT c.id, c.org_id, c.lane, c.dispatched, c.session_ref, c.seq,
      EXISTS (SELECT 1 FROM waiting_lanes w WHERE w.org_id = c.org_id) AS others_wait
    FROM closed c
  )
  SELECT f.id, f.org_id, f.lane, f.dispatched AND f.others_wait, CASE WHEN f.others_wait
    THEN (SELECT count(*) FILTER (WHERE n.waits_for = f.seq)::int FROM (SELECT o.waits_for FROM open_runs o
      WHERE o.session_ref = f.session_ref AND o.seq > f.seq ORDER BY o.seq LIMIT 64) n) ELSE 0 END
  FROM finished f;
END $$;

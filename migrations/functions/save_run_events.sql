-- Adds chunks of events to the logs of runs. $1 contains runs, $2 organizations, $3 fences, $4 and
-- $5 the first and last numbers, and $6 the events. Returns the runs that their worker still holds.
-- Runs that another transaction has locked are returned with locked set, and nothing is written for
-- them.
--
-- If the writer of a chunk got no reply and writes the chunk again with more events, the stored
-- chunk grows. For FOR SHARE see write_progress.
--
-- Called by executiondb for the checkpoints of workers. Locks the runs in the order of their ids,
-- without waiting.
CREATE OR REPLACE FUNCTION save_run_events(text[], text[], bigint[], int[], int[], text[])
  RETURNS TABLE (run_id text, locked boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
BEGIN
  RETURN QUERY
  WITH chunk AS MATERIALIZED (
    SELECT DISTINCT ON (run_id, fence, first_n) *
    FROM unnest($1, $3, $4, $5, $6) AS u (run_id, fence, first_n, last_n, events)
    ORDER BY run_id, fence, first_n, last_n DESC
  ), open AS MATERIALIZED (
    SELECT o.run_id, o.org_id, o.fence, o.status FROM open_runs o WHERE o.run_id = ANY ($1) ORDER BY o.run_id FOR SHARE SKIP LOCKED
  ), mine AS MATERIALIZED (
    SELECT o.run_id, o.org_id, c.fence, c.first_n, c.last_n, c.events FROM open o JOIN chunk c ON c.run_id = o.run_id
    WHERE (o.fence = c.fence) IS TRUE AND o.status = 'running'
  ), written AS (
    INSERT INTO run_events AS v (run_id, org_id, fence, first_n, last_n, events)
    SELECT run_id, org_id, fence, first_n, last_n, events FROM mine WHERE first_n > 0 ORDER BY run_id, first_n
    ON CONFLICT (run_id, fence, first_n) DO UPDATE SET last_n = excluded.last_n, events = excluded.events
      WHERE v.last_n < excluded.last_n
  )
  SELECT DISTINCT m.run_id, false FROM mine m
  UNION ALL
  SELECT l.run_id, true FROM open_runs l WHERE l.run_id = ANY ($1) AND l.run_id NOT IN (SELECT o.run_id FROM open o);
END $$;

-- Renews leases for the time $3. $1 contains runs, $2 their fences, and $4 the organizations. A run
-- that is not returned was taken from its worker. A run that another transaction has locked is
-- returned with locked set, and is not renewed; the caller tries again.
--
-- NOT IN hashes the renewed runs. For NOT EXISTS, the planner would expect few runs and compare
-- each run with every other.
--
-- Called by executiondb.Extend, with which a worker renews all of its leases together. Locks the
-- runs in the order of their ids, without waiting.
CREATE OR REPLACE FUNCTION extend_leases(text[], bigint[], interval, text[])
  RETURNS TABLE (run_id text, locked boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($4);
BEGIN
  RETURN QUERY
  WITH mine AS MATERIALIZED (
    SELECT o.run_id FROM open_runs o JOIN unnest($1, $2) h (run_id, fence) USING (run_id, fence)
    WHERE o.status = 'running' ORDER BY o.run_id FOR UPDATE OF o SKIP LOCKED
  ), extended AS (
    UPDATE open_runs o SET lease_until = clock_timestamp() + $3 FROM mine WHERE o.run_id = mine.run_id
    RETURNING o.run_id
  )
  SELECT e.run_id, false FROM extended e
  UNION ALL
  SELECT o.run_id, true FROM open_runs o JOIN unnest($1, $2) h (run_id, fence) USING (run_id, fence)
  WHERE o.status = 'running' AND o.run_id NOT IN (SELECT m.run_id FROM mine m);
END $$;

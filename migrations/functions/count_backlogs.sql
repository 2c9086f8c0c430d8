-- Returns the number of queued runs of each organization. It counts at most $1 runs in total.
--
-- Called by queuedb.Backlog. Runs beyond $1 are missing from the result, so the numbers are then
-- too low. Takes no row locks.
CREATE OR REPLACE FUNCTION count_backlogs(bigint)
  RETURNS TABLE (org_id text, runs bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.org_id, count(*) FROM (SELECT org_id FROM open_runs WHERE status = 'queued' LIMIT $1) o GROUP BY o.org_id;
END $$;
REVOKE EXECUTE ON FUNCTION count_backlogs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION count_backlogs TO parley_app;
ALTER FUNCTION count_backlogs OWNER TO parley_system;

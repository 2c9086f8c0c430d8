-- Returns up to $2 queued runs that have lost at least $1 workers. Each of these workers died while
-- it executed the run.
--
-- Called by executiondb.EndPoison, which locks each run, checks it again and lets it fail. So a run
-- that kills its workers is not executed forever. Takes no row locks.
CREATE OR REPLACE FUNCTION poison_runs(int, bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id FROM open_runs o
  WHERE o.status = 'queued' AND o.deaths >= $1 ORDER BY o.run_id LIMIT $2;
END $$;
REVOKE EXECUTE ON FUNCTION poison_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION poison_runs TO parley_app;
ALTER FUNCTION poison_runs OWNER TO parley_system;

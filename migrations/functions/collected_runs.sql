-- Returns up to $1 runs whose coalescing is over: each organization's first run comes before any
-- organization's second run. It compares with now() for the reason given in expired_runs.
--
-- Called by queuedb.ReleaseCollected, which then locks each row and releases its run. Takes no row
-- locks.
CREATE OR REPLACE FUNCTION collected_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.run_id, f.org_id FROM (SELECT c.run_id, c.org_id, c.closes_at, row_number() OVER (PARTITION BY c.org_id ORDER BY c.closes_at) AS n
    FROM collecting c WHERE c.closes_at <= now()) f
  ORDER BY f.n, f.closes_at LIMIT $1;
END $$;
REVOKE EXECUTE ON FUNCTION collected_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION collected_runs TO parley_app;
ALTER FUNCTION collected_runs OWNER TO parley_system;

-- Returns up to $1 running runs whose lease has expired. The result lists each organization's first
-- run before any organization's second run. $2 is the duration of a lease. For this time after a
-- start of PostgreSQL, the function returns no runs, because workers could not renew their leases
-- while PostgreSQL was down.
--
-- Called by executiondb.RequeueLost, which locks each run and checks it again. Takes no row locks.
CREATE OR REPLACE FUNCTION lost_runs(bigint, interval)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.run_id, f.org_id FROM (SELECT o.run_id, o.org_id, row_number() OVER (PARTITION BY o.org_id ORDER BY o.lease_until, o.run_id) AS n
    FROM open_runs o WHERE o.dispatched AND o.status = 'running' AND o.lease_until < clock_timestamp()
      AND pg_postmaster_start_time() < clock_timestamp() - $2) f
  ORDER BY f.n, f.run_id LIMIT $1;
END $$;
REVOKE EXECUTE ON FUNCTION lost_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lost_runs TO parley_app;
ALTER FUNCTION lost_runs OWNER TO parley_system;

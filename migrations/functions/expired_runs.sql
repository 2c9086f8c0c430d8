-- Returns up to $1 runs whose retention may be over. It compares with now() and not with
-- clock_timestamp(). The value of clock_timestamp() may change from row to row, so PostgreSQL could
-- not use an index.
--
-- Called by sessiondb.DeleteExpired, which locks each run and checks it again before the removal.
-- Takes no row locks.
CREATE OR REPLACE FUNCTION expired_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id FROM runs r WHERE r.sweep_after <= now() ORDER BY r.sweep_after LIMIT $1;
END $$;
REVOKE EXECUTE ON FUNCTION expired_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION expired_runs TO parley_app;
ALTER FUNCTION expired_runs OWNER TO parley_system;

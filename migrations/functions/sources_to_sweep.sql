-- Returns up to $1 texts that may be unreferenced. It compares with now() for the reason given in
-- expired_runs.
--
-- Called by the sweeper through blobdb. The sweeper then removes the texts that no run refers to.
-- Takes no row locks.
CREATE OR REPLACE FUNCTION sources_to_sweep(bigint)
  RETURNS TABLE (org_id text, hash bytea)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT s.org_id, s.hash FROM sources s WHERE s.sweep_after <= now() ORDER BY s.sweep_after LIMIT $1;
END $$;
REVOKE EXECUTE ON FUNCTION sources_to_sweep FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sources_to_sweep TO parley_app;
ALTER FUNCTION sources_to_sweep OWNER TO parley_system;

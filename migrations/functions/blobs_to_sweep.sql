-- Returns up to $1 contents that may be unreferenced. It compares with now() for the reason given
-- in expired_runs.
--
-- Called by the sweeper through blobdb. The sweeper then removes the contents without references;
-- see remove_unlinked_blobs. Takes no row locks, so another sweeper may get the same contents.
CREATE OR REPLACE FUNCTION blobs_to_sweep(bigint)
  RETURNS TABLE (org_id text, hash bytea)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT b.org_id, b.hash FROM blobs b WHERE b.sweep_after <= now() ORDER BY b.sweep_after LIMIT $1;
END $$;
REVOKE EXECUTE ON FUNCTION blobs_to_sweep FROM PUBLIC;
GRANT EXECUTE ON FUNCTION blobs_to_sweep TO parley_app;
ALTER FUNCTION blobs_to_sweep OWNER TO parley_system;

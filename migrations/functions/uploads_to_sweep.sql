-- Returns up to $1 uploads and attachments that may have no run. It compares with now() for the
-- reason given in expired_runs.
--
-- Called by blobdb.PruneUploads, which locks each file and checks it again. Takes no row locks.
CREATE OR REPLACE FUNCTION uploads_to_sweep(bigint)
  RETURNS TABLE (org_id text, id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.org_id, f.id FROM files f WHERE f.sweep_after <= now() ORDER BY f.sweep_after LIMIT $1;
END $$;
REVOKE EXECUTE ON FUNCTION uploads_to_sweep FROM PUBLIC;
GRANT EXECUTE ON FUNCTION uploads_to_sweep TO parley_app;
ALTER FUNCTION uploads_to_sweep OWNER TO parley_system;

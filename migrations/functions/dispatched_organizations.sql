-- Returns the organizations with dispatched runs. The recursion skips along the index from one organization to the next,
-- however many runs each has.
--
-- Called by queuedb.RepublishAll, after the job stream was lost, and by executiondb.ShortenWaits,
-- after the clock was set back. Takes no row locks.
CREATE OR REPLACE FUNCTION dispatched_organizations()
  RETURNS TABLE (org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE org AS (
    (SELECT org_id FROM open_runs WHERE dispatched ORDER BY org_id LIMIT 1)
    UNION ALL
    SELECT (SELECT o.org_id FROM open_runs o WHERE o.dispatched AND o.org_id > org.org_id ORDER BY o.org_id LIMIT 1)
    FROM org WHERE org.org_id IS NOT NULL
  )
  SELECT org_id FROM org WHERE org_id IS NOT NULL;
END $$;
REVOKE EXECUTE ON FUNCTION dispatched_organizations FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatched_organizations TO parley_app;
ALTER FUNCTION dispatched_organizations OWNER TO parley_system;

-- Returns up to $1 runs that have waited for a person until their deadline. The condition on parked_at is redundant,
-- but lets PostgreSQL use an index.
--
-- Called by executiondb.EndUnanswered, which locks each run, checks it again and ends it. Takes no
-- row locks.
CREATE OR REPLACE FUNCTION unanswered_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id FROM open_runs o
  WHERE o.parked_at IS NOT NULL AND o.status = 'requires_action' AND o.action_expires_at <= clock_timestamp()
  ORDER BY o.action_expires_at LIMIT $1;
END $$;
REVOKE EXECUTE ON FUNCTION unanswered_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unanswered_runs TO parley_app;
ALTER FUNCTION unanswered_runs OWNER TO parley_system;

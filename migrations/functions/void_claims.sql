-- Returns the runs among $1 that have finished, with their results. It makes the other, queued runs
-- wait for a slot again, because their job messages are about to be acknowledged. A run that
-- another transaction has locked keeps its slot; the sweeper dispatches it again.
--
-- Called by executiondb after claim_runs, with the runs that claim_runs did not return. Locks the
-- queued runs in the order of their ids, without waiting.
CREATE OR REPLACE FUNCTION void_claims(text[])
  RETURNS TABLE (id text, ended boolean, result text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH undone AS (
    UPDATE open_runs SET dispatched = false, next_dispatch_at = NULL
    WHERE run_id IN (SELECT run_id FROM open_runs WHERE run_id = ANY ($1) AND status = 'queued' AND dispatched
        ORDER BY run_id FOR UPDATE SKIP LOCKED)
      AND status = 'queued'
  )
  SELECT r.id, r.status IS NOT NULL AS ended, r.result FROM runs r WHERE r.id = ANY ($1);
END $$;
REVOKE EXECUTE ON FUNCTION void_claims FROM PUBLIC;
GRANT EXECUTE ON FUNCTION void_claims TO parley_app;
ALTER FUNCTION void_claims OWNER TO parley_system;

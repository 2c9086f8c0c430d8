-- Clears the delay of up to $1 runs whose time has come, and returns the number of these runs.
--
-- Called by queuedb.DispatchWaiting. The runs then wait for a slot. Locks the runs, and skips runs
-- that another transaction has locked.
CREATE OR REPLACE FUNCTION release_delayed_runs(bigint) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  released bigint;
BEGIN
  UPDATE open_runs SET not_before = NULL WHERE run_id = ANY (ARRAY(
    SELECT o.run_id FROM open_runs o WHERE o.not_before <= now() AND o.status = 'queued' ORDER BY o.not_before LIMIT $1 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS released = ROW_COUNT;
  RETURN released;
END $$;
REVOKE EXECUTE ON FUNCTION release_delayed_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION release_delayed_runs TO parley_app;
ALTER FUNCTION release_delayed_runs OWNER TO parley_system;

-- Returns the last run of the session $1 before the run with the number $2, or null. A run whose
-- previous_run is null continues this last run. The result stays the same, because both runs are
-- removed only together with the whole session.
--
-- The function is volatile: within a statement that calls accept_runs, it also sees the runs that
-- accept_runs has accepted.
--
-- Called by claim_runs and event_logs_that_fit, and by queries of queuedb, rundb and sessiondb.
-- Takes no row locks.
CREATE OR REPLACE FUNCTION preceding_run(bigint, int) RETURNS text
  LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT r.id FROM runs r WHERE r.session_ref = $1 AND r.seq < $2 ORDER BY r.seq DESC LIMIT 1);
END $$;

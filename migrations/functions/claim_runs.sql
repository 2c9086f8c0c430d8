-- Claims those of the runs $1 that may start, for a lease of $2. A job message contains the id of a
-- run but not its organization, which is in the run's row. A run whose lease has expired is taken
-- over: see lost_runs. A run that another transaction has locked is returned with locked set,
-- without a claim; the caller tries again.
--
-- If waits_for is the number of a run in the session, a run may start when that run has finished.
-- If waits_for is null, it may start when all earlier runs of its session have finished. A claim
-- locks no session row. Acceptance numbers the runs of a session in commit order, so a transaction
-- that sees a run sees all runs before it. Finished runs never open again. If the awaited run
-- finishes in the meantime, its finish dispatches the run again.
--
-- A claim of a dispatched run changes no column of an index or of an index's predicate, so it adds
-- no index entries.
--
-- Called by executiondb with the runs of the job messages that a worker has received. Locks the
-- runs in the order of their ids, without waiting. A run that is not returned has finished, must
-- wait or belongs to another worker; see void_claims.
DROP FUNCTION IF EXISTS claim_runs(text[], interval);
CREATE OR REPLACE FUNCTION claim_runs(text[], interval)
  RETURNS TABLE (run_id text, org_id text, agent_id text, template_id text, config_version int, session_ref bigint, seq int,
    session_id text, trigger_type text, automation_id text, idempotency_key text, input json, caller_kind text, retention int,
    fence bigint, attempts int, deaths int, last_error json, created_at timestamptz, started_at timestamptz, deadline timestamptz,
    db_now timestamptz, caller_allowed boolean, locked boolean, previous_run text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH want AS MATERIALIZED (
    SELECT run_id FROM open_runs WHERE run_id = ANY ($1) ORDER BY run_id FOR UPDATE SKIP LOCKED
  ), claimed AS (
    UPDATE open_runs o SET status = 'running', dispatched = true, fence = o.fence + 1, attempts = o.attempts + 1,
      deaths = o.deaths + (o.status = 'running')::int, lease_until = clock_timestamp() + $2::interval,
      next_dispatch_at = NULL, not_before = NULL, started_at = coalesce(o.started_at, clock_timestamp())
    FROM want
    WHERE o.run_id = want.run_id AND o.deadline > clock_timestamp()
      AND (o.status = 'queued' AND (o.not_before IS NULL OR o.not_before <= clock_timestamp())
        OR o.status = 'running' AND o.lease_until < clock_timestamp()
          AND pg_postmaster_start_time() < clock_timestamp() - $2::interval)
      AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref
        AND p.seq BETWEEN coalesce(o.waits_for, 0) AND coalesce(o.waits_for, o.seq - 1))
    RETURNING o.*
  )
  SELECT c.run_id, c.org_id, r.agent_id, r.template_id, r.config_version, c.session_ref, c.seq, r.session_id, r.trigger_type,
    r.automation_id, r.idempotency_key, r.input, r.caller_kind, r.retention, c.fence, c.attempts, c.deaths, c.last_error,
    r.created_at, c.started_at, c.deadline, clock_timestamp() AS db_now,
    r.agent_id IS NULL OR coalesce(a.deleted_at IS NULL AND r.caller_kind = ANY (a.allowed_callers), false) AS caller_allowed, false AS locked,
    coalesce(r.previous_run, CASE WHEN r.seq > 1 THEN preceding_run(r.session_ref, r.seq) END) AS previous_run
  FROM claimed c JOIN runs r ON r.id = c.run_id LEFT JOIN agents a ON a.id = c.agent_id AND a.org_id = c.org_id
  UNION ALL
  SELECT o.run_id, o.org_id, NULL, NULL, 0, o.session_ref, o.seq, '', '', NULL, NULL, NULL, '', 0, o.fence, o.attempts, o.deaths, NULL,
    clock_timestamp(), clock_timestamp(), o.deadline, clock_timestamp(), false, true, NULL
  FROM open_runs o WHERE o.run_id = ANY ($1) AND o.run_id NOT IN (SELECT w.run_id FROM want w);
END $$;
REVOKE EXECUTE ON FUNCTION claim_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION claim_runs TO parley_app;
ALTER FUNCTION claim_runs OWNER TO parley_system;

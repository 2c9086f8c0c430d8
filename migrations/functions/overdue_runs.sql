-- Returns up to $1 open runs whose deadline has passed. The result lists each organization's first
-- run before any organization's second run. It contains no runs in requires_action, which instead
-- end at action_expires_at; see unanswered_runs.
--
-- Called by executiondb.EndOverdue, which locks each run, checks it again and ends it as failed or
-- timed_out. Takes no row locks.
CREATE OR REPLACE FUNCTION overdue_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.run_id, f.org_id FROM (SELECT o.run_id, o.org_id, row_number() OVER (PARTITION BY o.org_id ORDER BY o.deadline, o.run_id) AS n
    FROM open_runs o WHERE o.deadline <= clock_timestamp() AND o.status <> 'requires_action') f
  ORDER BY f.n, f.run_id LIMIT $1;
END $$;
REVOKE EXECUTE ON FUNCTION overdue_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION overdue_runs TO parley_app;
ALTER FUNCTION overdue_runs OWNER TO parley_system;

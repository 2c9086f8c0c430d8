-- Returns up to $1 open runs whose deadline has passed: each organization's first run comes before
-- any organization's second run. The deadline of a run in requires_action is action_expires_at.
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

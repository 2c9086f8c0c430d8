-- Returns up to $1 dispatched runs that no worker has claimed and whose job message is due again.
-- The result lists each organization's first run before any organization's second run.
--
-- Called by queuedb.OverdueJobs, with which the sweeper publishes job messages again. Takes no row
-- locks.
CREATE OR REPLACE FUNCTION unclaimed_runs(bigint)
  RETURNS TABLE (run_id text, org_id text, lane text, dedupe text, dispatch_no int, reply_to text, traceparent text, dispatched_at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.run_id, f.org_id, f.lane, f.dedupe, f.dispatch_no, f.reply_to, f.traceparent, f.dispatched_at FROM (
    SELECT o.*, row_number() OVER (PARTITION BY o.org_id ORDER BY o.next_dispatch_at, o.run_id) AS n
    FROM open_runs o WHERE o.dispatched AND o.status = 'queued' AND o.next_dispatch_at <= clock_timestamp()) f
  ORDER BY f.n, f.run_id LIMIT $1;
END $$;
REVOKE EXECUTE ON FUNCTION unclaimed_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unclaimed_runs TO parley_app;
ALTER FUNCTION unclaimed_runs OWNER TO parley_system;

-- Returns the number of runs in each lane and state, and the time of the oldest run. The lane ingest contains the
-- documents. The state of a queued run is waiting if the run waits only for a slot, dispatched if its job was published
-- but not claimed, and held if the run is delayed. Ids of runs increase with time, so the run with the smallest id is
-- the oldest.
--
-- Called by queuedb.Queues, for metrics. It reads all open runs, so it is called at intervals.
-- Takes no row locks.
CREATE OR REPLACE FUNCTION queue_depth()
  RETURNS TABLE (lane text, state text, runs bigint, oldest timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH counted AS (
    SELECT o.lane,
      CASE WHEN o.status <> 'queued' THEN o.status WHEN o.dispatched THEN 'dispatched'
        WHEN o.not_before > clock_timestamp() THEN 'held' ELSE 'waiting' END AS state,
      count(*) AS runs, min(o.run_id) AS first
    FROM open_runs o GROUP BY 1, 2
  )
  SELECT c.lane, c.state, c.runs, r.created_at FROM counted c LEFT JOIN runs r ON r.id = c.first
  UNION ALL
  SELECT 'ingest', CASE WHEN d.status <> 'queued' THEN 'running' WHEN d.not_before > clock_timestamp() THEN 'held' ELSE 'waiting' END,
    count(*), min(coalesce(d.claimed_at, d.created_at))
  FROM documents d WHERE d.status = 'queued' OR d.status = 'processing' GROUP BY 1, 2;
END $$;
REVOKE EXECUTE ON FUNCTION queue_depth FROM PUBLIC;
GRANT EXECUTE ON FUNCTION queue_depth TO parley_app;
ALTER FUNCTION queue_depth OWNER TO parley_system;

-- Returns the number of dispatched runs in each lane of each organization, and whether other runs of the lane may wait. A
-- row with an empty organization contains the number of slots that the workers have in each lane. The count also reads
-- the dead row versions of finished runs, so its callers request it at intervals and not for each run.
--
-- Called by queuedb. Takes no row locks, so the numbers may be outdated when they are used.
-- Organizations with neither dispatched nor waiting runs are missing.
CREATE OR REPLACE FUNCTION count_slots()
  RETURNS TABLE (org_id text, lane text, runs bigint, waits boolean)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT coalesce(d.org_id, w.org_id), coalesce(d.lane, w.lane), coalesce(d.runs, 0), w.org_id IS NOT NULL
  FROM (SELECT o.org_id, o.lane, count(*) AS runs FROM open_runs o WHERE o.dispatched GROUP BY o.org_id, o.lane) d
  FULL JOIN waiting_lanes w ON w.org_id = d.org_id AND w.lane = d.lane
  UNION ALL
  SELECT '', '', coalesce(sum(s.slots), 0), false FROM worker_slots s WHERE s.expires_at > clock_timestamp();
END $$;
REVOKE EXECUTE ON FUNCTION count_slots FROM PUBLIC;
GRANT EXECUTE ON FUNCTION count_slots TO parley_app;
ALTER FUNCTION count_slots OWNER TO parley_system;

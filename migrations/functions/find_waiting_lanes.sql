-- Returns the lanes with waiting runs, and corrects waiting_lanes accordingly. It finds each lane
-- by one index lookup.
--
-- Called by queuedb.DispatchWaiting. Locks the rows of waiting_lanes that it changes, in order, and
-- skips locked rows when it deletes.
CREATE OR REPLACE FUNCTION find_waiting_lanes()
  RETURNS TABLE (org_id text, lane text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE found AS (
    (SELECT o.org_id, o.lane, o.run_id FROM open_runs o WHERE o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL
      ORDER BY o.org_id, o.lane, o.run_id LIMIT 1)
    UNION ALL
    SELECT n.org_id, n.lane, n.run_id FROM found f CROSS JOIN LATERAL (SELECT o.org_id, o.lane, o.run_id FROM open_runs o
      WHERE o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL AND (o.org_id, o.lane) > (f.org_id, f.lane)
      ORDER BY o.org_id, o.lane, o.run_id LIMIT 1) n
  ), changed AS (
    INSERT INTO waiting_lanes AS l (org_id, lane, oldest)
    SELECT f.org_id, f.lane, f.run_id FROM found f
    WHERE NOT EXISTS (SELECT FROM waiting_lanes k WHERE k.org_id = f.org_id AND k.lane = f.lane AND k.oldest = f.run_id)
    ORDER BY f.org_id, f.lane
    ON CONFLICT (org_id, lane) DO UPDATE SET oldest = excluded.oldest
  ), removed AS (
    DELETE FROM waiting_lanes l WHERE l.ctid = ANY (ARRAY(SELECT k.ctid FROM waiting_lanes k
      WHERE NOT EXISTS (SELECT FROM found f WHERE f.org_id = k.org_id AND f.lane = k.lane)
      ORDER BY k.org_id, k.lane FOR UPDATE SKIP LOCKED))
  )
  SELECT f.org_id, f.lane FROM found f;
END $$;
REVOKE EXECUTE ON FUNCTION find_waiting_lanes FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_waiting_lanes TO parley_app;
ALTER FUNCTION find_waiting_lanes OWNER TO parley_system;

-- Records that the worker $1 has $2 slots in each lane for the time $3. With 0 slots, it removes the record. Rows of
-- workers that expired long ago are deleted.
--
-- Called by queuedb.AnnounceSlots, which workers call at intervals. Locks the worker's row, and
-- skips expired rows that another worker is deleting.
CREATE OR REPLACE FUNCTION announce_slots(text, int, interval) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF $2 = 0 THEN
    DELETE FROM worker_slots WHERE worker_id = $1;
    RETURN;
  END IF;
  INSERT INTO worker_slots (worker_id, slots, expires_at) VALUES ($1, $2, clock_timestamp() + $3)
  ON CONFLICT (worker_id) DO UPDATE SET slots = excluded.slots, expires_at = excluded.expires_at;
  DELETE FROM worker_slots WHERE worker_id IN (SELECT w.worker_id FROM worker_slots w
    WHERE w.expires_at < clock_timestamp() - interval '1 hour' ORDER BY w.worker_id FOR UPDATE SKIP LOCKED);
END $$;
REVOKE EXECUTE ON FUNCTION announce_slots FROM PUBLIC;
GRANT EXECUTE ON FUNCTION announce_slots TO parley_app;
ALTER FUNCTION announce_slots OWNER TO parley_system;

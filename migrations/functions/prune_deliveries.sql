-- Deletes up to `most` due deliveries whose run is gone, up to `most` deliveries of deleted hooks
-- that no longer coalesce, and then those of the hooks that have no deliveries left. It also
-- deletes up to `most` senders that were not verified within `known`. Returns the largest of the
-- three numbers of considered rows. It compares with now() for the reason given in expired_runs.
--
-- Called by sessiondb.PruneDeliveries. Skips rows that another transaction has locked. A due
-- delivery whose run still exists is checked again after a day. A hook stays for at least an hour
-- after its deletion.
CREATE OR REPLACE FUNCTION prune_deliveries(most bigint, known interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  senders tid[] := ARRAY(SELECT s.ctid FROM hook_senders s WHERE s.verified_at <= now() - known ORDER BY s.verified_at LIMIT most);
  due tid[] := ARRAY(SELECT d.ctid FROM deliveries d WHERE d.sweep_after <= now() ORDER BY d.sweep_after LIMIT most FOR UPDATE SKIP LOCKED);
  left_over tid[];
  dead text[] := ARRAY(SELECT h.id FROM hooks h WHERE h.deleted_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM collecting c WHERE c.hook_id = h.id) ORDER BY h.deleted_at LIMIT 100);
BEGIN
  DELETE FROM hook_senders s WHERE s.ctid = ANY (senders) AND s.verified_at <= now() - known; -- unless the sender was verified in the meantime
  DELETE FROM deliveries d WHERE d.ctid = ANY (due) AND NOT EXISTS (SELECT FROM runs r WHERE r.id = d.run_id);
  UPDATE deliveries d SET sweep_after = now() + interval '1 day' WHERE d.ctid = ANY (due);
  left_over := ARRAY(SELECT d.ctid FROM unnest(dead) AS h (id) JOIN deliveries d ON d.hook_id = h.id LIMIT most FOR UPDATE OF d SKIP LOCKED);
  DELETE FROM deliveries d WHERE d.ctid = ANY (left_over);
  DELETE FROM hooks h WHERE h.id = ANY (dead) AND h.deleted_at < now() - interval '1 hour'
    AND NOT EXISTS (SELECT FROM deliveries d WHERE d.hook_id = h.id);
  RETURN greatest(cardinality(senders), cardinality(due), cardinality(left_over));
END $$;
REVOKE EXECUTE ON FUNCTION prune_deliveries FROM PUBLIC;
GRANT EXECUTE ON FUNCTION prune_deliveries TO parley_app;
ALTER FUNCTION prune_deliveries OWNER TO parley_system;

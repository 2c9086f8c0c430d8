-- Deletes notifications older than `kept` and those of deleted endpoints, up to `most` of each, and
-- then the deleted endpoints without notifications. Returns the larger of the two numbers of
-- deleted notifications.
--
-- Called by notificationdb.PruneNotifications. Skips rows that another transaction has locked. An
-- endpoint stays for at least a minute after its deletion.
CREATE OR REPLACE FUNCTION prune_notifications(most bigint, kept interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  old bigint;
  orphaned bigint;
BEGIN
  DELETE FROM notifications p WHERE p.ctid = ANY (ARRAY(
    SELECT n.ctid FROM notifications n WHERE n.created_at < now() - kept ORDER BY n.created_at LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS old = ROW_COUNT;
  DELETE FROM notifications p WHERE p.ctid = ANY (ARRAY(
    SELECT n.ctid FROM notification_endpoints e JOIN notifications n ON n.endpoint_id = e.id
    WHERE e.deleted_at IS NOT NULL LIMIT most FOR UPDATE OF n SKIP LOCKED));
  GET DIAGNOSTICS orphaned = ROW_COUNT;
  DELETE FROM notification_endpoints e WHERE e.deleted_at < now() - interval '1 minute'
    AND NOT EXISTS (SELECT FROM notifications n WHERE n.endpoint_id = e.id);
  RETURN greatest(old, orphaned);
END $$;
REVOKE EXECUTE ON FUNCTION prune_notifications FROM PUBLIC;
GRANT EXECUTE ON FUNCTION prune_notifications TO parley_app;
ALTER FUNCTION prune_notifications OWNER TO parley_system;

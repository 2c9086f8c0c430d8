-- Claims up to `most` due notifications for a lease and returns them with the address and secrets
-- of their endpoint. An endpoint has at most `at_once` notifications in progress, or one if its
-- last attempt failed. Endpoints with the fewest notifications in progress come first, so an
-- endpoint that is slow or unreachable delays no other. A disabled endpoint gets only pings. The
-- texts of a run whose retention period has ended are null. Claims wait for each other, so that
-- their counts are correct.
--
-- The recursive parts of the query read one notification of each endpoint, so their cost does not
-- depend on the number of notifications that wait. The first part goes from an enabled endpoint to
-- the next one with a pending notification, and passes over disabled ones. The second part goes
-- along the endpoints with pings.
--
-- Called by notificationdb.ClaimNotifications. Locks the chosen notifications in the order of their
-- ids, and skips locked ones. A late result of an earlier claim is rejected, because its fence is
-- older.
CREATE OR REPLACE FUNCTION claim_notifications(most int, lease interval, at_once int)
  RETURNS TABLE (id text, org_id text, endpoint_id text, event text, subject_id text, source text, data text, fence bigint, attempts int,
    created_at timestamptz, url text, secret text, previous_secret text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('parley.notifications', 0));
  RETURN QUERY
  WITH RECURSIVE waiting AS (
    SELECT ''::text COLLATE "C" AS id
    UNION ALL
    SELECT (SELECT n.endpoint_id FROM notifications n WHERE n.status = 'pending' AND n.endpoint_id >= (
        SELECT e.id FROM notification_endpoints e WHERE e.enabled AND e.deleted_at IS NULL AND e.id > w.id ORDER BY e.id LIMIT 1)
      ORDER BY n.endpoint_id LIMIT 1)
    FROM waiting w WHERE w.id IS NOT NULL
  ), tested AS (
    SELECT ''::text COLLATE "C" AS id
    UNION ALL
    SELECT (SELECT n.endpoint_id FROM notifications n WHERE n.status = 'pending' AND n.event = 'ping' AND n.endpoint_id > w.id
      ORDER BY n.endpoint_id LIMIT 1)
    FROM tested w WHERE w.id IS NOT NULL
  ), open AS MATERIALIZED (
    SELECT e.id, e.enabled, h.held, CASE WHEN e.failures > 0 THEN 1 ELSE at_once END - h.held AS places
    FROM (SELECT id FROM waiting UNION SELECT id FROM tested) w JOIN notification_endpoints e ON e.id = w.id AND e.deleted_at IS NULL
      CROSS JOIN LATERAL (SELECT count(*) AS held FROM notifications n WHERE n.endpoint_id = e.id AND n.lease_until > clock_timestamp()) h
  ), due AS MATERIALIZED (
    SELECT d.id FROM open o CROSS JOIN LATERAL (
      SELECT t.id, t.next_attempt_at, row_number() OVER (ORDER BY t.next_attempt_at) AS turn FROM (
        (SELECT n.id, n.next_attempt_at FROM notifications n
          WHERE o.enabled AND n.endpoint_id = o.id AND n.status = 'pending' AND n.next_attempt_at <= clock_timestamp()
          ORDER BY n.next_attempt_at LIMIT greatest(o.places, 0))
        UNION ALL
        (SELECT n.id, n.next_attempt_at FROM notifications n
          WHERE NOT o.enabled AND n.endpoint_id = o.id AND n.status = 'pending' AND n.event = 'ping' AND n.next_attempt_at <= clock_timestamp()
          ORDER BY n.next_attempt_at LIMIT greatest(o.places, 0))) t) d
    ORDER BY o.held + d.turn, d.next_attempt_at LIMIT most
  ), mine AS MATERIALIZED (
    SELECT n.id FROM notifications n WHERE n.id = ANY (ARRAY(SELECT d.id FROM due d))
      AND n.status = 'pending' AND n.next_attempt_at <= clock_timestamp() ORDER BY n.id FOR UPDATE SKIP LOCKED
  ), taken AS (
    UPDATE notifications n SET attempts = n.attempts + 1, fence = n.fence + 1, lease_until = clock_timestamp() + lease,
      next_attempt_at = clock_timestamp() + lease
    FROM mine WHERE n.id = mine.id
    RETURNING n.*
  )
  SELECT t.id, t.org_id, t.endpoint_id, t.event, t.subject_id, CASE WHEN k.there THEN t.source END, CASE WHEN k.there THEN t.data END,
    t.fence, t.attempts, t.created_at, e.url, e.secret, CASE WHEN e.previous_until > clock_timestamp() THEN e.previous_secret END
  FROM taken t JOIN notification_endpoints e ON e.id = t.endpoint_id
    CROSS JOIN LATERAL (SELECT t.event NOT LIKE 'run.%' OR EXISTS (SELECT FROM runs r
      WHERE r.id = t.subject_id AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())) AS there) k;
END $$;
REVOKE EXECUTE ON FUNCTION claim_notifications FROM PUBLIC;
GRANT EXECUTE ON FUNCTION claim_notifications TO parley_app;
ALTER FUNCTION claim_notifications OWNER TO parley_system;

-- Dispatches up to $3 waiting runs of each lane and returns their job messages. $1 contains organizations, $2 their
-- lanes, and $4 is the time until the first redispatch. It counts no slots.
--
-- The oldest 256 waiting runs of a lane are read first. If too few of them may start, the first waiting run of each
-- session in the lane is read: up to 2048 sessions, beginning at a random one so that no session is always the last.
-- Later runs of a session may start before its first one only if they have waits_for: the oldest 2048 of these are
-- read, too. Rows are locked one by one in subqueries, which keeps the planner from other joins. IS TRUE keeps the
-- planner from using an index of waiting runs to find a row whose key is known. A run may start under the condition of
-- claim_runs.
--
-- Called by queuedb, in the transaction that frees the slots or in one of its own. Locks the
-- dispatched runs and skips locked ones, so two calls never dispatch the same run. The caller
-- publishes the job messages after the commit; if it dies, unclaimed_runs finds the runs.
CREATE OR REPLACE FUNCTION dispatch_runs(text[], text[], int[], interval)
  RETURNS TABLE (run_id text, org_id text, lane text, dedupe text, dispatch_no int, reply_to text, traceparent text)
  LANGUAGE plpgsql SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
  f record;
  got int;
  oldest text;
  start bigint;
BEGIN
  FOR f IN SELECT u.org_id, u.lane, u.places FROM unnest($1, $2, $3) AS u (org_id, lane, places) WHERE u.places > 0 LOOP
    oldest := coalesce((SELECT l.oldest FROM waiting_lanes l WHERE l.org_id = f.org_id AND l.lane = f.lane), '');
    RETURN QUERY
    WITH next AS (
      SELECT l.run_id
      FROM (SELECT w.run_id FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
          AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL AND w.run_id >= oldest
        ORDER BY w.run_id LIMIT 256) w
      CROSS JOIN LATERAL (SELECT o.run_id FROM open_runs o WHERE o.run_id = w.run_id
        AND (o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL) IS TRUE
        AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref
          AND p.seq BETWEEN coalesce(o.waits_for, 0) AND coalesce(o.waits_for, o.seq - 1))
        FOR UPDATE OF o SKIP LOCKED) l
      LIMIT f.places
    )
    UPDATE open_runs o SET dispatched = true, dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
      next_dispatch_at = clock_timestamp() + $4
    FROM next WHERE o.run_id = next.run_id
    RETURNING o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent;
    GET DIAGNOSTICS got = ROW_COUNT;
    CONTINUE WHEN got >= f.places OR NOT EXISTS (SELECT 1 FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
      AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL AND w.run_id >= oldest ORDER BY w.run_id OFFSET 256 LIMIT 1);
    SELECT a.ref + floor(random() * (z.ref - a.ref + 1))::bigint INTO start
    FROM (SELECT w.session_ref AS ref FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
        AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL ORDER BY w.session_ref LIMIT 1) a,
      (SELECT w.session_ref AS ref FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
        AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL ORDER BY w.session_ref DESC LIMIT 1) z;
    RETURN QUERY
    WITH RECURSIVE session AS (
      SELECT start - 1 AS ref, 0 AS round, false AS found
      UNION ALL
      SELECT coalesce(n.ref, 0), CASE WHEN n.ref IS NULL THEN s.round + 1 ELSE s.round END, n.ref IS NOT NULL
      FROM session s LEFT JOIN LATERAL (SELECT w.session_ref AS ref FROM open_runs w
        WHERE w.org_id = f.org_id AND w.lane = f.lane AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL
          AND w.session_ref > s.ref AND w.session_ref < CASE s.round WHEN 0 THEN 9223372036854775807 ELSE start END
        ORDER BY w.session_ref LIMIT 1) n ON true
      WHERE s.round < 2
    ), next AS (
      SELECT l.run_id FROM (
        SELECT head.run_id FROM (SELECT ref FROM session WHERE found LIMIT 2048) s
          CROSS JOIN LATERAL (SELECT w.run_id, w.waits_for FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
            AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL AND w.session_ref = s.ref ORDER BY w.seq LIMIT 1) head
        WHERE head.waits_for IS NULL
        UNION ALL
        (SELECT w.run_id FROM open_runs w WHERE w.org_id = f.org_id AND w.lane = f.lane
          AND w.status = 'queued' AND NOT w.dispatched AND w.not_before IS NULL AND w.waits_for IS NOT NULL ORDER BY w.run_id LIMIT 2048)) w
      CROSS JOIN LATERAL (SELECT o.run_id FROM open_runs o WHERE o.run_id = w.run_id
        AND (o.status = 'queued' AND NOT o.dispatched AND o.not_before IS NULL) IS TRUE
        AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref
          AND p.seq BETWEEN coalesce(o.waits_for, 0) AND coalesce(o.waits_for, o.seq - 1))
        FOR UPDATE OF o SKIP LOCKED) l
      LIMIT f.places - got
    )
    UPDATE open_runs o SET dispatched = true, dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
      next_dispatch_at = clock_timestamp() + $4
    FROM next WHERE o.run_id = next.run_id
    RETURNING o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent;
  END LOOP;
END $$;

-- Adds notifications about finished runs. Every transaction that writes the result of an accepted
-- run deletes the run's row in open_runs, which fires this trigger. Erased runs have no result and
-- are not reported. Without endpoints the cost is one index lookup.
--
-- Completed, failed and timed-out runs are reported, and cancelled runs are not. The workers send
-- the notifications; see claim_notifications.
CREATE OR REPLACE FUNCTION notify_runs_ended() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM notification_endpoints e WHERE e.enabled AND e.org_id = ANY (ARRAY(SELECT DISTINCT g.org_id FROM gone g))) THEN
    RETURN NULL;
  END IF;
  INSERT INTO notifications (id, org_id, endpoint_id, event, subject_id, n, data)
  SELECT new_type_id('evt'), r.org_id, e.id, k.event, r.id, 0, r.result
  FROM gone g JOIN runs r ON r.id = g.run_id
    CROSS JOIN LATERAL (SELECT CASE WHEN r.status = 'completed' THEN 'run.completed' WHEN r.status IN ('failed', 'timed_out') THEN 'run.failed' END AS event) k
    JOIN notification_endpoints e ON e.org_id = r.org_id AND e.enabled AND k.event = ANY (e.events) AND (e.agent_id IS NULL OR e.agent_id = r.agent_id)
  WHERE r.result IS NOT NULL
  ORDER BY r.id, e.id
  ON CONFLICT (subject_id, endpoint_id, event, n) DO NOTHING;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER notify_runs_ended AFTER DELETE ON open_runs REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION notify_runs_ended();

-- Adds a notification about a run that waits for a person, for each endpoint that subscribes to
-- such runs. It adds none for a run that waits for the results of its client's tools, because the
-- client already has the calls in the response.
--
-- Fires when a run begins to wait. A second notification with the same fence is ignored.
CREATE OR REPLACE FUNCTION notify_run_waits() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  IF waits_for_client(NEW.required_action) THEN
    RETURN NULL;
  END IF;
  INSERT INTO notifications (id, org_id, endpoint_id, event, subject_id, n, source)
  SELECT new_type_id('evt'), NEW.org_id, e.id, 'run.requires_action', NEW.run_id, NEW.fence, NEW.required_action::text
  FROM notification_endpoints e
  WHERE e.org_id = NEW.org_id AND e.enabled AND 'run.requires_action' = ANY (e.events) AND (e.agent_id IS NULL OR e.agent_id = NEW.agent_id)
  ORDER BY e.id
  ON CONFLICT (subject_id, endpoint_id, event, n) DO NOTHING;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER notify_run_waits AFTER UPDATE ON open_runs
  FOR EACH ROW WHEN (NEW.status = 'requires_action' AND OLD.status <> 'requires_action') EXECUTE FUNCTION notify_run_waits();

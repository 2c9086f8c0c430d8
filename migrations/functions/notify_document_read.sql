-- Adds a notification about a document's new status for each endpoint that subscribes to it.
--
-- Fires when a document becomes ready or fails. A second notification with the same fence is
-- ignored, so a repeated change adds none. The workers send the notifications; see
-- claim_notifications.
CREATE OR REPLACE FUNCTION notify_document_read() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO notifications (id, org_id, endpoint_id, event, subject_id, n, source)
  SELECT new_type_id('evt'), NEW.org_id, e.id, k.event, NEW.id, NEW.fence, to_jsonb(NEW)::text
  FROM (SELECT 'knowledge.' || NEW.status AS event) k
    JOIN notification_endpoints e ON e.org_id = NEW.org_id AND e.enabled AND k.event = ANY (e.events)
  ORDER BY e.id
  ON CONFLICT (subject_id, endpoint_id, event, n) DO NOTHING;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER notify_document_read AFTER UPDATE ON documents
  FOR EACH ROW WHEN (NEW.status IN ('ready', 'failed') AND OLD.status <> NEW.status AND NEW.error_code IS DISTINCT FROM 'deleting')
  EXECUTE FUNCTION notify_document_read();

-- Removes the texts from notifications about runs whose retention period has ended. Pending notifications fail,
-- except those that a worker is sending: the worker records their outcome.
--
-- Fires for each statement that deletes runs. Locks the notifications in the order of their ids.
CREATE OR REPLACE FUNCTION unnotify_runs_removed() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  UPDATE notifications n SET data = NULL, source = NULL,
    status = CASE WHEN u.over THEN 'failed' ELSE n.status END,
    error = CASE WHEN u.over THEN 'The run''s retention period ended before the run could be reported.' ELSE n.error END
  FROM (SELECT p.id, p.status = 'pending' AND (p.lease_until > clock_timestamp()) IS NOT TRUE AS over FROM notifications p
    WHERE p.subject_id = ANY (ARRAY(SELECT g.id FROM gone g)) ORDER BY p.id FOR UPDATE) u
  WHERE n.id = u.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER unnotify_runs_removed AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION unnotify_runs_removed();

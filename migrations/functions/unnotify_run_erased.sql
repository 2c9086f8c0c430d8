-- Deletes the notifications of an erased run.
--
-- The trigger has the same condition as run_erased. A notification that a worker is sending may
-- still arrive.
CREATE OR REPLACE FUNCTION unnotify_run_erased() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM notifications WHERE subject_id = NEW.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER unnotify_run_erased AFTER UPDATE OF input ON runs
  FOR EACH ROW WHEN (NEW.status IS NOT NULL AND NEW.result IS NULL) EXECUTE FUNCTION unnotify_run_erased();

-- Deletes the attempts and the playback records of removed runs. These rows are found by the runs, because a run that
-- was cancelled during its answer may have no steps.
--
-- Fires for each statement that deletes runs.
CREATE OR REPLACE FUNCTION runs_take_attempts() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  runs text[] := ARRAY(SELECT g.id FROM gone g);
BEGIN
  DELETE FROM run_attempts WHERE run_id = ANY (runs);
  DELETE FROM heard WHERE run_id = ANY (runs);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER runs_take_attempts AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION runs_take_attempts();

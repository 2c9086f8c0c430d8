-- Removes the words of removed runs. A run without words may be in the batch that index_runs is
-- adding. It is therefore recorded again, so that the next batch removes its words.
--
-- Fires for each statement that deletes runs.
CREATE OR REPLACE FUNCTION runs_leave_index() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  WITH removed AS (DELETE FROM run_terms t USING gone g WHERE t.run_id = g.id RETURNING t.run_id)
  INSERT INTO unindexed_runs (run_id, org_id)
  SELECT g.id, g.org_id FROM gone g WHERE g.result IS NOT NULL AND g.id NOT IN (SELECT run_id FROM removed);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER runs_leave_index AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION runs_leave_index();

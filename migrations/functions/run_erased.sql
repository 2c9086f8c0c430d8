-- Deletes the playback record and the words of an erased run, and the bodies of the run's
-- deliveries. The trigger recognizes an erasure: no other statement changes the input of a run and
-- leaves the run without a result. The run is recorded for index_runs, which may be adding its
-- words.
--
-- The trigger unnotify_run_erased deletes the run's notifications under the same condition.
CREATE OR REPLACE FUNCTION run_erased() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM heard WHERE run_id = NEW.id;
  DELETE FROM run_terms WHERE run_id = NEW.id;
  INSERT INTO unindexed_runs (run_id, org_id) VALUES (NEW.id, NEW.org_id);
  UPDATE deliveries SET body = NULL WHERE run_id = NEW.id AND body IS NOT NULL;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER run_erased AFTER UPDATE OF input ON runs
  FOR EACH ROW WHEN (NEW.status IS NOT NULL AND NEW.result IS NULL) EXECUTE FUNCTION run_erased();

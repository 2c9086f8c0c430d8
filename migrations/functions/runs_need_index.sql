-- Records that the words of finished runs are to be added to run_terms. Every transaction that
-- finishes an accepted run deletes the run's row in open_runs, which fires this trigger. Erased
-- runs are also recorded, but index_runs skips them.
--
-- The table unindexed_runs has no key, so an insertion waits for no other transaction.
CREATE OR REPLACE FUNCTION runs_need_index() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO unindexed_runs (run_id, org_id) SELECT g.run_id, g.org_id FROM gone g;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER runs_need_index AFTER DELETE ON open_runs REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION runs_need_index();

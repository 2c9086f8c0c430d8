-- Ends the coalescing of a run that finishes before it was released, for example by cancellation or
-- erasure. The trigger fires only for runs that finish without having started, which are few.
--
-- A later delivery with the same key then begins a new run. Locks the deleted row.
CREATE OR REPLACE FUNCTION run_collects_no_more() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM collecting WHERE run_id = NEW.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER run_collects_no_more AFTER UPDATE OF status ON runs
  FOR EACH ROW WHEN (NEW.status IS NOT NULL AND NEW.started_at IS NULL) EXECUTE FUNCTION run_collects_no_more();

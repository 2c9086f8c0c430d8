-- Deletes the rows that belong to the runs of deleted steps: effects, sources, documents, attempts and files, with
-- their contents. Rows are found by primary keys from arrays, so that the plan is fast even if it was made while
-- the tables were empty.
--
-- Fires for each statement that deletes steps, such as an erasure. Sources and contents that other
-- runs use stay.
CREATE OR REPLACE FUNCTION steps_take_effects() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  runs text[] := ARRAY(SELECT DISTINCT g.run_id FROM gone g);
  orgs text[];
  hashes bytea[];
BEGIN
  DELETE FROM effects WHERE run_id = ANY (runs);
  DELETE FROM run_sources WHERE run_id = ANY (runs);
  DELETE FROM run_documents WHERE run_id = ANY (runs);
  DELETE FROM run_attempts WHERE run_id = ANY (runs);
  WITH made AS (DELETE FROM files WHERE run_id = ANY (runs) RETURNING org_id, hash)
  SELECT array_agg(m.org_id), array_agg(m.hash) INTO orgs, hashes FROM made m WHERE m.hash IS NOT NULL;
  PERFORM remove_unlinked_blobs(orgs, hashes);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER steps_take_effects AFTER DELETE ON steps REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION steps_take_effects();

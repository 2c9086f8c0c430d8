-- Adds the words of up to `most` finished runs to run_terms, and returns how many runs it handled.
-- The words are those of the automation's name, the question and the answer. Only one transaction
-- at a time adds words; concurrent calls return 0. If a run is erased meanwhile, the erasure adds
-- the run to unindexed_runs again, and a later call removes the run's words.
--
-- Called by rundb.IndexRuns. Runs with a very long input are found only by their answer and
-- automation; see run_question. Each lexeme has the organization's prefix; see run_prefix.
CREATE OR REPLACE FUNCTION index_runs(most int) RETURNS int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  places tid[];
  ids text[];
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('index_runs', 0)) THEN
    RETURN 0;
  END IF;
  SELECT array_agg(q.ctid), array_agg(DISTINCT q.run_id) INTO places, ids FROM (SELECT u.ctid, u.run_id FROM unindexed_runs u LIMIT most) q;
  IF ids IS NULL THEN
    RETURN 0;
  END IF;
  DELETE FROM unindexed_runs u WHERE u.ctid = ANY (places);
  DELETE FROM run_terms t WHERE t.run_id = ANY (ids);
  INSERT INTO run_terms (run_id, org_id, terms)
  SELECT r.id, r.org_id, array_to_tsvector(ARRAY(SELECT o.prefix || w FROM run_words(o.body) w)
    || ARRAY[o.prefix || '@' || substr(r.id, 5, 4), o.prefix || '@' || substr(r.id, 5, 5), o.prefix || '@' || substr(r.id, 5, 6)])
  FROM runs r CROSS JOIN LATERAL (SELECT run_prefix(r.org_id), concat_ws(' ', r.automation_id, run_question(r.input), left(r.answer, 20000))
    OFFSET 0) AS o (prefix, body) -- computed once for each run, not for each word
  WHERE r.id = ANY (ids) AND r.result IS NOT NULL;
  RETURN cardinality(places);
END $$;
REVOKE EXECUTE ON FUNCTION index_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION index_runs TO parley_app;
ALTER FUNCTION index_runs OWNER TO parley_system;

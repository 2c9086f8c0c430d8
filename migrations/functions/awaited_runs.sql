-- Returns the runs among $2, of the organizations $1, that have finished or wait for a person.
--
-- Called by rundb.AwaitedRuns, with which an ingress polls the runs of its waiting requests. Takes
-- no row locks. A run of another organization is not returned.
CREATE OR REPLACE FUNCTION awaited_runs(text[], text[]) RETURNS SETOF stored_run
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY SELECT s.* FROM stored_runs s WHERE s.id = ANY ($2) AND (s.ended OR s.required_action IS NOT NULL);
END $$;

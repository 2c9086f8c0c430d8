-- Returns the runs among $2, of the organizations $1, that wait for a person. Only binaries older
-- than the function awaited_runs call it.
--
-- Takes no row locks. It can be dropped in the release after the last release that calls it.
DROP FUNCTION IF EXISTS parked_runs(text[], text[]);
CREATE OR REPLACE FUNCTION parked_runs(text[], text[]) RETURNS SETOF stored_run
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY SELECT s.* FROM stored_runs s WHERE s.id = ANY ($2) AND s.required_action IS NOT NULL;
END $$;

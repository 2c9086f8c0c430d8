-- Returns the runs among $2, of the organizations $1, that still exist.
--
-- Called only by binaries of the previous release. Takes no row locks.
DROP FUNCTION IF EXISTS runs_of_deliveries(text[], text[]);
CREATE OR REPLACE FUNCTION runs_of_deliveries(text[], text[]) RETURNS SETOF stored_run
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY SELECT s.* FROM stored_runs s
  WHERE s.id = ANY ($2) AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp());
END $$;

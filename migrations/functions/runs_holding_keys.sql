-- Returns the live runs that hold idempotency keys. $1 contains organizations, and $2 the hashes of keys.
--
-- A run whose retention period has ended no longer holds its key. Called by rundb.RunsByKey. Takes
-- no row locks.
DROP FUNCTION IF EXISTS runs_holding_keys(text[], bytea[]);
CREATE OR REPLACE FUNCTION runs_holding_keys(text[], bytea[]) RETURNS SETOF stored_run
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY SELECT s.* FROM stored_runs s
  WHERE s.idempotency_hash = ANY ($2) AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp());
END $$;

-- Deletes up to `most` rows that are too old from each of past_usage, past_usage_by and past_automations. Returns the
-- largest of the three numbers of deleted rows.
--
-- Called by sessiondb.PrunePast. Skips rows that another transaction has locked.
CREATE OR REPLACE FUNCTION prune_past(most bigint, usage_kept interval, automations_kept interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  days bigint;
  hours bigint;
  automations bigint;
BEGIN
  DELETE FROM past_usage p WHERE p.ctid = ANY (ARRAY(
    SELECT d.ctid FROM past_usage d WHERE d.hour < now() - usage_kept ORDER BY d.hour LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS hours = ROW_COUNT;
  DELETE FROM past_usage_by p WHERE p.ctid = ANY (ARRAY(
    SELECT d.ctid FROM past_usage_by d WHERE d.day < (now() - usage_kept)::date ORDER BY d.day LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS days = ROW_COUNT;
  DELETE FROM past_automations p WHERE p.ctid = ANY (ARRAY(
    SELECT d.ctid FROM past_automations d WHERE d.created_at < now() - automations_kept ORDER BY d.created_at LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS automations = ROW_COUNT;
  RETURN greatest(hours, days, automations);
END $$;
REVOKE EXECUTE ON FUNCTION prune_past FROM PUBLIC;
GRANT EXECUTE ON FUNCTION prune_past TO parley_app;
ALTER FUNCTION prune_past OWNER TO parley_system;

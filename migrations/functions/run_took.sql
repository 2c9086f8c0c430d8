-- Returns the duration of a run in milliseconds, or null until the run has finished. It returns 0
-- if the end seems to be before the start, because a clock was set back.
--
-- Called by runs_leave_numbers and by queries of usagedb.
CREATE OR REPLACE FUNCTION run_took(accepted timestamptz, ended timestamptz) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN ended IS NOT NULL THEN greatest(round(extract(epoch FROM ended - accepted) * 1000), 0)::bigint END
$$;

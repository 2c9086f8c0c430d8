-- Returns the duration of a run in milliseconds, or null until the run has finished. Clocks may have been set back in
-- the meantime.
CREATE OR REPLACE FUNCTION run_took(accepted timestamptz, ended timestamptz) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN ended IS NOT NULL THEN greatest(round(extract(epoch FROM ended - accepted) * 1000), 0)::bigint END
$$;

-- Returns the first day, in UTC, of the period that contains an instant.
CREATE OR REPLACE FUNCTION budget_start(period text, at timestamptz) RETURNS date
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT date_trunc(period, at AT TIME ZONE 'UTC')::date
$$;

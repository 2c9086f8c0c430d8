-- Returns the first day of the period that an instant is in, in UTC.
CREATE OR REPLACE FUNCTION budget_start(period text, at timestamptz) RETURNS date
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT date_trunc(period, at AT TIME ZONE 'UTC')::date
$$;

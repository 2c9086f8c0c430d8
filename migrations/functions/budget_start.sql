-- Returns the first day, in UTC, of the period that contains an instant.
--
-- period is day or month. Called by the functions for budgets, and by budgetdb.
CREATE OR REPLACE FUNCTION budget_start(period text, at timestamptz) RETURNS date
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT date_trunc(period, at AT TIME ZONE 'UTC')::date
$$;

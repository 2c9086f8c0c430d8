-- Returns the number of dispatched runs in each lane, up to $3: $1 are organizations, $2 their lanes. It reads the dead row
-- versions of finished runs too, so its callers ask it now and then and not for each run.
CREATE OR REPLACE FUNCTION count_dispatched(text[], text[], bigint)
  RETURNS TABLE (org_id text, lane text, dispatched bigint)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT u.org_id, u.lane, (SELECT count(*) FROM (SELECT 1 FROM open_runs d
    WHERE d.org_id = u.org_id AND d.lane = u.lane AND d.dispatched LIMIT $3) counted)
  FROM unnest($1, $2) AS u (org_id, lane);
END $$;

-- Appends steps to the journal of a run and returns how many. $1 is the run, $2 the fence, $3 are the numbers, $4 the
-- steps, and $5 is the organization. It appends nothing if another attempt holds the run.
--
-- FOR SHARE makes a claim by another worker wait until these steps are visible to it, or lets the claim come first.
CREATE OR REPLACE FUNCTION append_steps(text, bigint, int[], text[], text) RETURNS bigint
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for(ARRAY[$5]);
  written bigint;
BEGIN
  WITH mine AS (
    SELECT run_id FROM open_runs WHERE run_id = $1 AND fence = $2 AND status = 'running' FOR SHARE
  )
  INSERT INTO steps (run_id, org_id, n, fence, step)
  SELECT mine.run_id, $5, u.n, $2, u.step::json FROM mine, unnest($3, $4) AS u (n, step);
  GET DIAGNOSTICS written = ROW_COUNT;
  RETURN written;
END $$;

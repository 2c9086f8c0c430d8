-- Reserves amounts of metrics for a call of a run, under the fence of the attempt. See hold_budgets.
--
-- Called by budgetdb.Reserve. Returns nothing if no budget covers the call, or if the run does not
-- exist.
CREATE OR REPLACE FUNCTION reserve_budgets(org text, run text, attempt bigint, hold text, metrics text[], amounts bigint[])
  RETURNS TABLE (budget_id text, held boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for(ARRAY[org]);
BEGIN
  RETURN QUERY SELECT h.budget_id, h.held
    FROM runs r CROSS JOIN LATERAL hold_budgets(org, r.agent_id, r.key_id, r.automation_id, run, attempt, hold, metrics, amounts) h
    WHERE r.id = run AND r.org_id = org;
END $$;

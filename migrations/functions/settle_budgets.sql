-- Ends the reservation of a call of a run. Budgets that were created during the call count it, too, unless the run is not
-- stored yet. See settle_holds.
--
-- hold is '' if the call has no reservation. Called by budgetdb.Settle.
CREATE OR REPLACE FUNCTION settle_budgets(org text, run text, hold text, metrics text[], amounts bigint[]) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for(ARRAY[org]);
  agent text;
  key text;
  automation text;
BEGIN
  SELECT r.agent_id, r.key_id, r.automation_id INTO agent, key, automation FROM runs r WHERE r.id = run AND r.org_id = org;
  PERFORM settle_holds(org, agent, key, automation, FOUND, hold, metrics, amounts);
END $$;

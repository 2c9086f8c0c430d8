-- Ends the reservation of a call on behalf of an agent, a key and an automation, each of which may
-- be null. amounts contains the amounts of each metric that the call used. A reservation that has
-- already ended stays unchanged. If late is true, budgets that were created during the call count
-- it, too. The argument for the reservation is empty if the call has none. Then only budgets that
-- were created during the call count it.
--
-- Called by settle_budgets, and by budgetdb.SettleCall for calls without a run. Locks the counts in
-- the order of the budgets' ids and periods until the end of the transaction.
CREATE OR REPLACE FUNCTION settle_holds(org text, agent text, key text, automation text, late boolean, hold text, metrics text[],
  amounts bigint[]) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for(ARRAY[org]);
  now_is timestamptz := clock_timestamp();
  holding text[] := ARRAY(SELECT h.budget_id FROM budget_holds h WHERE h.id = hold AND h.org_id = org);
  newer text[] := '{}';
  b budgets;
BEGIN
  IF hold <> '' AND holding = '{}' THEN
    RETURN;
  END IF;
  FOR b IN SELECT k.* FROM budgets k JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric AND u.amount > 0
    WHERE late AND k.org_id = org AND k.id <> ALL (holding) AND budget_covers(k.scope, k.subjects, agent, key, automation)
    ORDER BY k.id
  LOOP
    PERFORM open_budget(b, budget_start(b.period, now_is));
    newer := newer || b.id::text;
  END LOOP;
  PERFORM FROM budget_counts c WHERE c.budget_id = ANY (holding || newer) ORDER BY c.budget_id, c.starts_on FOR UPDATE;
  IF hold <> '' AND NOT EXISTS (SELECT FROM budget_holds h WHERE h.id = hold) THEN
    RETURN; -- another transaction has ended the reservation in the meantime
  END IF;
  UPDATE budget_counts c SET used = c.used + u.amount
  FROM budgets k JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric
  WHERE k.id = ANY (newer) AND c.budget_id = k.id AND c.starts_on = budget_start(k.period, now_is);
  WITH gone AS (
    DELETE FROM budget_holds h WHERE h.id = hold AND h.org_id = org RETURNING h.budget_id, h.starts_on, h.amount
  )
  UPDATE budget_counts c SET reserved = c.reserved - g.amount, used = c.used + u.amount
  FROM gone g JOIN budgets k ON k.id = g.budget_id JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric
  WHERE c.budget_id = g.budget_id AND c.starts_on = g.starts_on;
END $$;

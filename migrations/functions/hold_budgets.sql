-- Reserves amounts of metrics for a call on behalf of an agent, a key and an automation, each of
-- which may be null. The arguments run and attempt belong to the call; they are '' and 0 for a call
-- without a run. If all budgets that cover the call have room, the function returns these budgets
-- with held set. Otherwise it reserves nothing and returns the budgets without room. All functions
-- lock the counts of budgets in the same order.
--
-- Called by reserve_budgets, and by budgetdb.ReserveCall for calls without a run. Locks the counts
-- in the order of the budgets' ids until the end of the transaction. Returns nothing if no budget
-- covers the call. The reservation ends with settle_holds or settle_lost_budgets.
CREATE OR REPLACE FUNCTION hold_budgets(org text, agent text, key text, automation text, run text, attempt bigint, hold text,
  metrics text[], amounts bigint[])
  RETURNS TABLE (budget_id text, held boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for(ARRAY[org]);
  now_is timestamptz := clock_timestamp();
  b budgets;
  ids text[] := '{}';
  refused int;
BEGIN
  FOR b IN SELECT k.* FROM budgets k
    WHERE k.org_id = org AND k.metric = ANY (metrics) AND budget_covers(k.scope, k.subjects, agent, key, automation)
    ORDER BY k.id
  LOOP
    PERFORM open_budget(b, budget_start(b.period, now_is));
    ids := ids || b.id::text;
  END LOOP;
  IF ids = '{}' THEN
    RETURN;
  END IF;
  PERFORM FROM budget_counts c JOIN budgets k ON k.id = c.budget_id
    WHERE c.budget_id = ANY (ids) AND c.starts_on = budget_start(k.period, now_is) ORDER BY c.budget_id FOR UPDATE OF c;
  RETURN QUERY SELECT k.id, false
    FROM budgets k JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric
    JOIN budget_counts c ON c.budget_id = k.id AND c.starts_on = budget_start(k.period, now_is)
    WHERE k.id = ANY (ids) AND (c.used::numeric + c.reserved + u.amount > k.most OR c.used >= k.most) ORDER BY k.id;
  GET DIAGNOSTICS refused = ROW_COUNT;
  IF refused > 0 THEN
    RETURN;
  END IF;
  INSERT INTO budget_holds (id, budget_id, starts_on, org_id, run_id, fence, amount)
    SELECT hold, k.id, budget_start(k.period, now_is), org, run, attempt, u.amount
    FROM budgets k JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric WHERE k.id = ANY (ids);
  UPDATE budget_counts c SET reserved = c.reserved + h.amount FROM budget_holds h
    WHERE h.id = hold AND c.budget_id = h.budget_id AND c.starts_on = h.starts_on;
  RETURN QUERY SELECT i, true FROM unnest(ids) AS i;
END $$;

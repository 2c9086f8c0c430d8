-- Adds the count of a budget for the period that began on the given day and returns true. If the
-- count exists, it returns false. The count of the previous period remains, because a call may
-- still use it. Only one transaction at a time adds a count. The other transactions wait for this
-- count. Otherwise, each of them would also read all runs of the period.
--
-- Called before each use of a count: by hold_budgets, settle_holds, runs_within_budgets and
-- budgetdb. Takes an advisory lock on the budget until the end of the transaction, if the count is
-- missing. Deletes the budget's counts of all periods before the previous one, except counts with
-- reservations.
CREATE OR REPLACE FUNCTION open_budget(b budgets, since date) RETURNS boolean
  LANGUAGE plpgsql AS $$
DECLARE
  made boolean;
BEGIN
  IF EXISTS (SELECT FROM budget_counts c WHERE c.budget_id = b.id AND c.starts_on = since) THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('parley.budget ' || b.id, 0));
  IF EXISTS (SELECT FROM budget_counts c WHERE c.budget_id = b.id AND c.starts_on = since) THEN
    RETURN false;
  END IF;
  INSERT INTO budget_counts (budget_id, starts_on, org_id, used) VALUES (b.id, since, b.org_id, budget_seed(b, since)) ON CONFLICT DO NOTHING;
  made := FOUND;
  DELETE FROM budget_counts c WHERE c.budget_id = b.id AND c.reserved = 0
    AND c.starts_on < budget_start(b.period, (since - 1)::timestamp AT TIME ZONE 'UTC');
  RETURN made;
END $$;

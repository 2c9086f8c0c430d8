-- Counts accepted runs against budgets. If a budget for runs has no room for a run, the function
-- refuses the whole batch with an error whose detail begins with the budget. The caller then tries
-- the batch's runs one by one.
--
-- Fires for each statement that inserts runs. Locks the counts of the budgets in the order of their
-- ids until the end of the transaction, so acceptances of an organization with such a budget wait
-- for each other.
CREATE OR REPLACE FUNCTION runs_within_budgets() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  orgs text[];
  b budgets;
  n bigint;
  since date;
BEGIN
  -- The policies restrict budgets to the organizations of the transaction. Usually these
  -- organizations have no budgets, so the new runs need not be read.
  IF NOT EXISTS (SELECT FROM budgets k WHERE k.metric = 'runs') THEN
    RETURN NULL;
  END IF;
  orgs := ARRAY(SELECT DISTINCT f.org_id FROM fresh f);
  IF NOT EXISTS (SELECT FROM budgets k WHERE k.org_id = ANY (orgs) AND k.metric = 'runs') THEN
    RETURN NULL;
  END IF;
  FOR b IN SELECT k.* FROM budgets k WHERE k.org_id = ANY (orgs) AND k.metric = 'runs' ORDER BY k.id LOOP
    SELECT count(*) INTO n FROM fresh f WHERE f.org_id = b.org_id AND budget_covers(b.scope, b.subjects, f.agent_id, f.key_id, f.automation_id);
    CONTINUE WHEN n = 0;
    since := budget_start(b.period, clock_timestamp());
    IF open_budget(b, since) THEN
      n := 0; -- open_budget has counted the runs, because they are already in the table runs
    END IF;
    UPDATE budget_counts c SET used = c.used + n WHERE c.budget_id = b.id AND c.starts_on = since AND c.used + n <= b.most;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'a budget of runs is used up' USING ERRCODE = '23B01', DETAIL = b.id || ' ' || since;
    END IF;
  END LOOP;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER runs_within_budgets AFTER INSERT ON runs REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION runs_within_budgets();

-- Ends up to `most` reservations, older than `age`, of attempts that have ended, and returns the number of these
-- reservations. The reserved amounts count as used.
--
-- Called by budgetdb.SettleLost. Locks one count at a time, in the order that all functions use.
-- Reservations of calls without a run are included, because no open run has an empty id.
CREATE OR REPLACE FUNCTION settle_lost_budgets(most bigint, age interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  n bigint := 0;
  h budget_holds;
BEGIN
  FOR h IN SELECT l.* FROM budget_holds l WHERE l.created_at < now() - age
    AND NOT EXISTS (SELECT FROM open_runs o WHERE o.run_id = l.run_id AND o.fence = l.fence AND o.status = 'running')
    ORDER BY l.budget_id, l.starts_on LIMIT most
  LOOP
    PERFORM FROM budget_counts c WHERE c.budget_id = h.budget_id AND c.starts_on = h.starts_on FOR UPDATE;
    DELETE FROM budget_holds l WHERE l.id = h.id AND l.budget_id = h.budget_id;
    IF FOUND THEN
      UPDATE budget_counts c SET reserved = c.reserved - h.amount, used = c.used + h.amount
      WHERE c.budget_id = h.budget_id AND c.starts_on = h.starts_on;
      n := n + 1;
    END IF;
  END LOOP;
  RETURN n;
END $$;
REVOKE EXECUTE ON FUNCTION settle_lost_budgets FROM PUBLIC;
GRANT EXECUTE ON FUNCTION settle_lost_budgets TO parley_app;
ALTER FUNCTION settle_lost_budgets OWNER TO parley_system;

-- Removes the bodies of a run's deliveries when the run is removed, because no erasure would find
-- them afterwards. Deliveries are locked in the order of their keys, as in log_deliveries.
-- PostgreSQL fires triggers in the order of their names. This trigger's name sorts before the
-- others, whose tables come later in the lock order.
--
-- Fires for each statement that deletes runs, such as the removal after the retention period. The
-- rows of the deliveries stay as a log.
CREATE OR REPLACE FUNCTION deliveries_forget_runs() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  removed text[] := ARRAY(SELECT g.id FROM gone g);
BEGIN
  PERFORM FROM deliveries d WHERE d.run_id = ANY (removed) AND d.body IS NOT NULL ORDER BY d.hook_id, d.delivery_id FOR UPDATE;
  IF FOUND THEN
    UPDATE deliveries d SET body = NULL WHERE d.run_id = ANY (removed) AND d.body IS NOT NULL;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER deliveries_forget_runs AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION deliveries_forget_runs();

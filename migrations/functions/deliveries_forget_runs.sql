-- Removes the bodies of deliveries with their run: no erasure would find them afterwards. Deliveries are locked in the
-- order of their keys, as by log_deliveries. By its name this trigger runs before the others, which lock later tables.
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

-- Replaces the outcomes of logged deliveries by the given ones, and ends the coalescing of runs
-- that do not exist. $1 contains hooks, $2 delivery ids, $3 organizations, $4 statuses, $5 runs, $6
-- and $7 codes and messages of errors, and $8 the runs that do not exist.
--
-- Called by queuedb.AcceptDeliveries for deliveries whose outcome has changed, in the transaction
-- that has logged the deliveries and therefore holds their locks.
CREATE OR REPLACE FUNCTION settle_deliveries(text[], text[], text[], text[], text[], text[], text[], text[]) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for($3);
BEGIN
  UPDATE deliveries d SET status = u.status, run_id = nullif(u.run_id, ''), error_code = nullif(u.error_code, ''),
    error_message = nullif(u.error_message, '')
  FROM unnest($1, $2, $3, $4, $5, $6, $7) AS u (hook_id, delivery_id, org_id, status, run_id, error_code, error_message)
  WHERE d.hook_id = u.hook_id AND d.delivery_id = u.delivery_id AND d.org_id = u.org_id;
  DELETE FROM collecting c WHERE c.run_id = ANY ($8);
END $$;

-- Logs deliveries. $1 contains hooks, $2 delivery ids, $3 organizations, $4 statuses, $5 events, $6 runs, $7 sizes, and $8
-- bodies; $9 says whether the bodies are sealed. $10 contains content types, $11 and $12 codes and messages of errors, and
-- $13 numbers of repetitions.
--
-- Returns the logged state of each delivery whose hook exists, with inserted set if the delivery is new. A repeated
-- delivery keeps its outcome if it has a run. Otherwise the new outcome is stored, because the hook or its agent may have
-- been fixed in the meantime. Deliveries are numbered in the order of the arguments and locked in the order of their keys.
--
-- Called by queuedb.AcceptDeliveries for deliveries that accept_deliveries does not handle. A hook
-- that was deleted in the meantime has no row in the result. kept says whether the body is stored.
CREATE OR REPLACE FUNCTION log_deliveries(text[], text[], text[], text[], text[], text[], bigint[], bytea[], boolean, text[], text[], text[], int[])
  RETURNS TABLE (hook_id text, delivery_id text, ref bigint, status text, event text, run_id text, bytes bigint, kept boolean,
    error_code text, error_message text, received_at timestamptz, duplicates int, inserted boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($3);
BEGIN
  RETURN QUERY
  WITH numbered AS MATERIALIZED (
    SELECT u.*, nextval('deliveries_ref') AS ref FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $10, $11, $12, $13) AS u
      (hook_id, delivery_id, org_id, status, event, run_id, bytes, body, content_type, error_code, error_message, again)
  )
  INSERT INTO deliveries AS d (hook_id, delivery_id, ref, org_id, status, event, run_id, bytes, body, sealed, content_type, error_code,
    error_message, duplicates)
  SELECT n.hook_id, n.delivery_id, n.ref, h.org_id, n.status, n.event, nullif(n.run_id, ''), n.bytes, nullif(n.body, ''), $9,
    n.content_type, nullif(n.error_code, ''), nullif(n.error_message, ''), n.again
  FROM numbered n JOIN hooks h ON h.id = n.hook_id WHERE h.org_id = n.org_id AND h.deleted_at IS NULL
  ORDER BY n.hook_id COLLATE "C", n.delivery_id COLLATE "C"
  ON CONFLICT (hook_id, delivery_id) DO UPDATE SET duplicates = d.duplicates + excluded.duplicates + 1,
    status = CASE WHEN d.run_id IS NULL THEN excluded.status ELSE d.status END,
    error_code = CASE WHEN d.run_id IS NULL THEN excluded.error_code ELSE d.error_code END,
    error_message = CASE WHEN d.run_id IS NULL THEN excluded.error_message ELSE d.error_message END,
    run_id = coalesce(d.run_id, excluded.run_id)
  RETURNING d.hook_id, d.delivery_id, d.ref, d.status, d.event, d.run_id, d.bytes, d.body IS NOT NULL AS kept, d.error_code,
    d.error_message, d.received_at, d.duplicates, d.xmax = 0 AS inserted; -- no other transaction wrote the row
END $$;

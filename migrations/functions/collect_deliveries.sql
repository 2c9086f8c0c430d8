-- Coalesces deliveries. Each element of the arrays is a group of deliveries with the same hook and
-- key that arrived together. $1 contains the hooks, $2 the hashes of the keys, $3 the
-- organizations, and $4 the runs to start for keys for which no run is coalescing deliveries. $5
-- contains the numbers of deliveries, $6 the inputs, and $7 and $8 the windows and the longest
-- delays in milliseconds. A run takes at most $9 deliveries.
--
-- Returns the run of each group. If the run of a key is being released or finished, the function
-- waits until that is done and starts a new run.
--
-- Called by queuedb.AcceptDeliveries. Locks rows of the table collecting in the order of their keys
-- until the end of the transaction, which also stores the deliveries. The input of a group is that
-- of its newest delivery.
CREATE OR REPLACE FUNCTION collect_deliveries(text[], bytea[], text[], text[], bigint[], text[], bigint[], bigint[], bigint)
  RETURNS TABLE (hook_id text, key_hash bytea, run_id text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($3);
BEGIN
  RETURN QUERY
  INSERT INTO collecting AS c (hook_id, key_hash, org_id, run_id, deliveries, input, first_at, last_at, closes_at)
  SELECT u.hook_id, u.key_hash, u.org_id, u.run_id, u.deliveries, u.input::json, now_at.at, now_at.at + make_interval(secs => u.longest / 1000.0),
    now_at.at + make_interval(secs => CASE WHEN u.deliveries >= $9 THEN 0 ELSE least(u.window_ms, u.longest) / 1000.0 END)
  FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) AS u (hook_id, key_hash, org_id, run_id, deliveries, input, window_ms, longest)
    CROSS JOIN (SELECT clock_timestamp() AS at) now_at
  ORDER BY u.hook_id COLLATE "C", u.key_hash
  ON CONFLICT (hook_id, key_hash) DO UPDATE SET deliveries = c.deliveries + excluded.deliveries, input = excluded.input,
    closes_at = CASE WHEN c.deliveries + excluded.deliveries >= $9 THEN least(c.closes_at, excluded.first_at)
      ELSE least(excluded.closes_at, c.last_at) END
  RETURNING c.hook_id, c.key_hash, c.run_id;
END $$;

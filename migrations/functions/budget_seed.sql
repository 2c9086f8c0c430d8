-- Returns the amount of a budget that was used by runs accepted on or after a day. It is computed
-- from the rows of finished runs, the sums over removed runs, and the journals of all other runs.
--
-- The amount is in the unit of the database: sandboxSeconds in milliseconds. Called by open_budget,
-- once for each budget and period. Takes no row locks; its cost grows with the runs of the period.
CREATE OR REPLACE FUNCTION budget_seed(b budgets, since date) RETURNS bigint
  LANGUAGE plpgsql STABLE AS $$
DECLARE
  begins timestamptz := since::timestamp AT TIME ZONE 'UTC';
  from_id text := first_run_id(begins - interval '1 hour');
  total numeric;
BEGIN
  SELECT coalesce(sum(n), 0) INTO total FROM (
    SELECT sum(CASE b.metric WHEN 'costMicros' THEN coalesce(r.cost_micros, 0) WHEN 'runs' THEN 1 WHEN 'sandboxSeconds' THEN coalesce(r.sandbox_ms, 0)
      ELSE coalesce(r.input_tokens, 0) + coalesce(r.output_tokens, 0) END) AS n
    FROM runs r WHERE r.org_id = b.org_id AND r.id >= from_id AND r.created_at >= begins
      AND budget_covers(b.scope, b.subjects, r.agent_id, r.key_id, r.automation_id)
    UNION ALL SELECT sum(CASE b.metric WHEN 'costMicros' THEN p.cost_micros WHEN 'runs' THEN p.runs WHEN 'sandboxSeconds' THEN p.sandbox_ms
      ELSE p.input_tokens + p.output_tokens END)
    FROM past_usage_by p WHERE p.org_id = b.org_id AND p.day >= since
      AND budget_covers(b.scope, b.subjects, p.target_id, nullif(p.key_id, ''), nullif(p.automation_id, ''))
    UNION ALL SELECT sum(step_amount(b.metric, s.step))
    FROM open_runs o JOIN runs r ON r.id = o.run_id JOIN steps s ON s.run_id = o.run_id
    WHERE o.org_id = b.org_id AND o.attempts > 0 AND b.metric <> 'runs' AND r.created_at >= begins
      AND budget_covers(b.scope, b.subjects, r.agent_id, r.key_id, r.automation_id)) parts;
  RETURN least(total, 9223372036854775807)::bigint;
END $$;

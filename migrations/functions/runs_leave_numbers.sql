-- Adds removed runs to past_usage, past_usage_by and past_automations. All removals lock the rows
-- in the same order. Concurrent removals therefore wait for each other, but do not deadlock. An
-- erased run has no automation.
--
-- Fires for each statement that deletes runs. Reports of usage and lists of automations thus stay
-- complete after the retention period; see prune_past.
CREATE OR REPLACE FUNCTION runs_leave_numbers() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO past_usage AS p (org_id, hour, target_id, runs, completed, failed, cancelled, timed_out, input_tokens, output_tokens, cost_micros, took,
    sandbox_ms)
  SELECT g.org_id, date_trunc('hour', g.created_at, 'UTC') AS hour, coalesce(g.agent_id, g.template_id) AS target_id, count(*),
    count(*) FILTER (WHERE g.status = 'completed'), count(*) FILTER (WHERE g.status = 'failed'),
    count(*) FILTER (WHERE g.status = 'cancelled'), count(*) FILTER (WHERE g.status = 'timed_out'),
    coalesce(sum(g.input_tokens), 0)::bigint, coalesce(sum(g.output_tokens), 0)::bigint, coalesce(sum(g.cost_micros), 0)::bigint,
    count_took(array_agg(took_bucket(run_took(g.created_at, g.finished_at))) FILTER (WHERE g.finished_at IS NOT NULL)),
    coalesce(sum(g.sandbox_ms), 0)::bigint
  FROM gone g GROUP BY g.org_id, hour, target_id ORDER BY g.org_id, hour, target_id
  ON CONFLICT (org_id, hour, target_id) DO UPDATE SET runs = p.runs + excluded.runs, completed = p.completed + excluded.completed,
    failed = p.failed + excluded.failed, cancelled = p.cancelled + excluded.cancelled, timed_out = p.timed_out + excluded.timed_out,
    input_tokens = p.input_tokens + excluded.input_tokens, output_tokens = p.output_tokens + excluded.output_tokens,
    cost_micros = p.cost_micros + excluded.cost_micros, took = add_took(p.took, excluded.took), sandbox_ms = p.sandbox_ms + excluded.sandbox_ms;
  INSERT INTO past_usage_by AS p
  SELECT g.org_id, (g.created_at AT TIME ZONE 'UTC')::date AS day, coalesce(g.agent_id, g.template_id) AS target_id, coalesce(g.key_id, '') AS key_id,
    coalesce(g.automation_id, '') COLLATE "C" AS automation_id, count(*),
    count(*) FILTER (WHERE g.status = 'completed'), count(*) FILTER (WHERE g.status = 'failed'),
    count(*) FILTER (WHERE g.status = 'cancelled'), count(*) FILTER (WHERE g.status = 'timed_out'),
    coalesce(sum(g.input_tokens), 0)::bigint, coalesce(sum(g.output_tokens), 0)::bigint, coalesce(sum(g.cost_micros), 0)::bigint,
    coalesce(sum(g.sandbox_ms), 0)::bigint
  FROM gone g GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, day, target_id, key_id, automation_id) DO UPDATE SET runs = p.runs + excluded.runs,
    completed = p.completed + excluded.completed, failed = p.failed + excluded.failed, cancelled = p.cancelled + excluded.cancelled,
    timed_out = p.timed_out + excluded.timed_out, input_tokens = p.input_tokens + excluded.input_tokens,
    output_tokens = p.output_tokens + excluded.output_tokens, cost_micros = p.cost_micros + excluded.cost_micros,
    sandbox_ms = p.sandbox_ms + excluded.sandbox_ms;
  INSERT INTO past_automations AS p (org_id, automation_id, target_id, trigger_type, run_id, status, created_at, finished_at)
  SELECT DISTINCT ON (g.org_id, g.automation_id COLLATE "C")
    g.org_id, g.automation_id, coalesce(g.agent_id, g.template_id), g.trigger_type, g.id, g.status, g.created_at, g.finished_at
  FROM gone g WHERE g.automation_id IS NOT NULL AND g.status IS NOT NULL ORDER BY g.org_id, g.automation_id COLLATE "C", g.id DESC
  ON CONFLICT (org_id, automation_id) DO UPDATE SET target_id = excluded.target_id, trigger_type = excluded.trigger_type,
    run_id = excluded.run_id, status = excluded.status, created_at = excluded.created_at, finished_at = excluded.finished_at
    WHERE p.run_id < excluded.run_id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER runs_leave_numbers AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION runs_leave_numbers();

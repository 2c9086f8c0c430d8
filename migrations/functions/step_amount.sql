-- Returns the amount of a metric that a step in a run used.
--
-- sandboxSeconds are counted in milliseconds. A step without the value counts as 0. Called by
-- budget_seed.
CREATE OR REPLACE FUNCTION step_amount(metric text, step json) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(CASE metric WHEN 'costMicros' THEN (step -> 'turn' ->> 'costMicros')::bigint
    WHEN 'tokens' THEN coalesce((step -> 'turn' -> 'usage' ->> 'inputTokens')::bigint, 0) + coalesce((step -> 'turn' -> 'usage' ->> 'outputTokens')::bigint, 0)
    WHEN 'sandboxSeconds' THEN CASE WHEN step -> 'tool' -> 'call' ->> 'name' = 'codeExecution' THEN (step -> 'tool' -> 'call' ->> 'durationMs')::bigint END
  END, 0)
$$;

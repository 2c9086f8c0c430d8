-- Returns a part of a run object, as a JSON object: the number of its citations, its first 129 tool calls by name, status
-- and duration, its usage, its error, its finish reason and its counts. It omits long tool names, which only a model can
-- have invented. Programs may return U+0000, which PostgreSQL refuses to read; it becomes U+FFFD.
--
-- result is the JSON of a finished run; null results in null. Called by runs_keep_summary for large
-- results, and by queries of rundb for others.
CREATE OR REPLACE FUNCTION run_summary(result text) RETURNS json
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT json_object_agg(f.key, CASE f.key
    WHEN 'citations' THEN to_json(CASE json_typeof(f.value) WHEN 'array' THEN json_array_length(f.value) ELSE 0 END)
    WHEN 'toolCalls' THEN (
      SELECT coalesce(json_agg(json_build_object('status', c.call->'status', 'durationMs', c.call->'durationMs', 'name',
        CASE WHEN octet_length((c.call->'name')::text) <= 1000 THEN c.call->'name' ELSE '"(too long a name)"' END) ORDER BY c.n), '[]')
      FROM json_array_elements(CASE json_typeof(f.value) WHEN 'array' THEN f.value ELSE '[]' END) WITH ORDINALITY AS c (call, n)
      WHERE c.n <= 129)
    ELSE f.value END)
  FROM json_each(replace($1, '\u0000', '\ufffd')::json) f
  WHERE f.key IN ('citations', 'toolCalls', 'usage', 'error', 'finishReason', 'omittedTurns', 'citationsRemoved')
$$;

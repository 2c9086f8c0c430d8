-- Returns up to `most` sealed values of a kind after a position, in the order of the keys that
-- encrypt them. It returns ids and numbers, never the values. It starts to scan an index at the
-- position. A caller can therefore find the next key quickly, without reading the other values of a
-- key.
--
-- keys contains the ids of the keys with which a value was encrypted. id and part identify the
-- value within its kind. Called by sealdb.SealedValues when values are encrypted with a new key.
-- Takes no row locks.
CREATE OR REPLACE FUNCTION sealed_values(of_kind text, after_keys text, after_owner text, after_id text, after_part text, most int)
  RETURNS TABLE (keys text, org_id text, id text, part text)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  CASE of_kind
  WHEN 'tool' THEN RETURN QUERY
    SELECT sealed_tools_keys(a.tools), a.org_id, a.id, '' FROM agents a
    WHERE sealed_tools_keys(a.tools) <> '' AND (sealed_tools_keys(a.tools) COLLATE "C", a.org_id, a.id) > (after_keys, after_owner, after_id)
    ORDER BY sealed_tools_keys(a.tools) COLLATE "C", a.org_id, a.id LIMIT most;
  WHEN 'tool_version' THEN RETURN QUERY
    SELECT sealed_config_keys(c.config), c.org_id, c.target_id, c.version::text FROM agent_configs c
    WHERE c.org_id IS NOT NULL AND sealed_config_keys(c.config) <> '' AND (sealed_config_keys(c.config) COLLATE "C", c.org_id, c.target_id, c.version)
      > (after_keys, after_owner, after_id, coalesce(nullif(after_part, '')::int, 0))
    ORDER BY sealed_config_keys(c.config) COLLATE "C", c.org_id, c.target_id, c.version LIMIT most;
  WHEN 'widget' THEN RETURN QUERY
    SELECT sealed_text_keys(ARRAY[a.widget_secret]), a.org_id, a.id, '' FROM agents a
    WHERE a.widget_secret <> '' AND (sealed_text_keys(ARRAY[a.widget_secret]) COLLATE "C", a.org_id, a.id) > (after_keys, after_owner, after_id)
    ORDER BY sealed_text_keys(ARRAY[a.widget_secret]) COLLATE "C", a.org_id, a.id LIMIT most;
  WHEN 'hook' THEN RETURN QUERY
    SELECT sealed_text_keys(ARRAY[h.secret, h.previous_secret]), h.org_id, h.id, '' FROM hooks h
    WHERE h.secret <> ''
      AND (sealed_text_keys(ARRAY[h.secret, h.previous_secret]) COLLATE "C", h.org_id, h.id) > (after_keys, after_owner, after_id)
    ORDER BY sealed_text_keys(ARRAY[h.secret, h.previous_secret]) COLLATE "C", h.org_id, h.id LIMIT most;
  WHEN 'notification' THEN RETURN QUERY
    SELECT sealed_text_keys(ARRAY[e.secret, e.previous_secret]), e.org_id, e.id, '' FROM notification_endpoints e
    WHERE e.secret <> ''
      AND (sealed_text_keys(ARRAY[e.secret, e.previous_secret]) COLLATE "C", e.org_id, e.id) > (after_keys, after_owner, after_id)
    ORDER BY sealed_text_keys(ARRAY[e.secret, e.previous_secret]) COLLATE "C", e.org_id, e.id LIMIT most;
  WHEN 'delivery' THEN RETURN QUERY
    SELECT sealed_bytes_keys(d.body), d.org_id, d.hook_id, d.delivery_id FROM deliveries d
    WHERE d.sealed AND d.body IS NOT NULL
      AND (sealed_bytes_keys(d.body) COLLATE "C", d.org_id, d.hook_id, d.delivery_id) > (after_keys, after_owner, after_id, after_part)
    ORDER BY sealed_bytes_keys(d.body) COLLATE "C", d.org_id, d.hook_id, d.delivery_id LIMIT most;
  WHEN 'content' THEN RETURN QUERY
    SELECT sealed_bytes_keys(c.data), c.org_id, encode(c.hash, 'hex'), c.n::text FROM blob_chunks c
    WHERE c.sealed > 0 AND (sealed_bytes_keys(c.data) COLLATE "C", c.org_id, c.hash, c.n)
      > (after_keys, after_owner, decode(after_id, 'hex'), coalesce(nullif(after_part, '')::int, -1))
    ORDER BY sealed_bytes_keys(c.data) COLLATE "C", c.org_id, c.hash, c.n LIMIT most;
  END CASE;
END $$;
REVOKE EXECUTE ON FUNCTION sealed_values FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sealed_values TO parley_app;
ALTER FUNCTION sealed_values OWNER TO parley_system;

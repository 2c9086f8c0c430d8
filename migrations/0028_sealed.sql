-- +goose NO TRANSACTION
-- +goose Up
-- Which keys of SECRETS_KEY the sealed values of the database need. As in 0004_tenancy.sql, while binaries of the release before work: new
-- functions and indexes, and everything can be repeated.
--
-- These functions give the ids of the keys that seal a value, in order and joined by commas; empty when nothing is sealed. A value whose form
-- is not that of a sealed one has the key "malformed". Indexes are made of them, so they name all that they use.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sealed_text_keys(sealed text[]) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(string_agg(DISTINCT k.key, ',' ORDER BY k.key), '') FROM (
    SELECT coalesce(substring(s.value FROM '^v1\.([0-9a-f]{8})\.'), 'malformed') COLLATE "C" AS key
    FROM unnest($1) AS s (value) WHERE s.value <> '') k
$$;
-- +goose StatementEnd

-- Of an agent's tools: header values and signing secrets.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sealed_tools_keys(tools jsonb) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT public.sealed_text_keys(ARRAY(
    SELECT v #>> '{}' FROM jsonb_path_query($1, '$.httpRequest.endpoints[*].headers.*') v
    UNION ALL SELECT v #>> '{}' FROM jsonb_path_query($1, '$.httpRequest.endpoints[*].signingSecret') v
    UNION ALL SELECT v #>> '{}' FROM jsonb_path_query($1, '$.mcp.servers[*].headers.*') v))
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sealed_config_keys(config json) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT public.sealed_tools_keys(($1 -> 'tools')::jsonb)
$$;
-- +goose StatementEnd

-- Of contents. Each piece of a chunk names its key, and all pieces of a chunk have the same one. Only the beginning of the value is read.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sealed_bytes_keys(sealed bytea) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN substring($1 FOR 1) = '\x01' THEN encode(substring($1 FROM 2 FOR 4), 'hex') ELSE 'malformed' END
$$;
-- +goose StatementEnd

-- An interrupted index build leaves an invalid index under the name.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  FOREACH name IN ARRAY ARRAY['agents_sealed_tools', 'agents_sealed_widget', 'agent_configs_sealed', 'hooks_sealed', 'notification_endpoints_sealed',
    'deliveries_sealed', 'blob_chunks_sealed'] LOOP
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(name) AND NOT indisvalid) THEN
      EXECUTE format('DROP INDEX %I', name);
    END IF;
  END LOOP;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS agents_sealed_tools ON agents ((sealed_tools_keys(tools) COLLATE "C"), org_id, id)
  WHERE sealed_tools_keys(tools) <> '';
CREATE INDEX CONCURRENTLY IF NOT EXISTS agents_sealed_widget ON agents ((sealed_text_keys(ARRAY[widget_secret]) COLLATE "C"), org_id, id)
  WHERE widget_secret <> '';
CREATE INDEX CONCURRENTLY IF NOT EXISTS agent_configs_sealed ON agent_configs ((sealed_config_keys(config) COLLATE "C"), org_id, target_id, version)
  WHERE org_id IS NOT NULL AND sealed_config_keys(config) <> '';
CREATE INDEX CONCURRENTLY IF NOT EXISTS hooks_sealed ON hooks ((sealed_text_keys(ARRAY[secret, previous_secret]) COLLATE "C"), org_id, id)
  WHERE secret <> '';
CREATE INDEX CONCURRENTLY IF NOT EXISTS notification_endpoints_sealed
  ON notification_endpoints ((sealed_text_keys(ARRAY[secret, previous_secret]) COLLATE "C"), org_id, id) WHERE secret <> '';
CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_sealed ON deliveries ((sealed_bytes_keys(body) COLLATE "C"), org_id, hook_id, delivery_id)
  WHERE sealed AND body IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS blob_chunks_sealed ON blob_chunks ((sealed_bytes_keys(data) COLLATE "C"), org_id, hash, n) WHERE sealed > 0;

-- The sealed values of a kind in the order of their keys, after a position: at most so many. Ids and numbers, never the values. Each kind
-- walks its index from that position on, so that the next key is as near as the next value.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- Puts other sealed values in the place of those of a version of an agent, of which nothing else changes: the service may not change it at
-- all. Gives the version; nothing when a value is not there any more.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION reseal_config(org text, target text, of_version int, olds text[], news text[]) RETURNS SETOF int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  present text;
BEGIN
  IF (org = ANY (parley_organizations())) IS NOT TRUE THEN
    RETURN;
  END IF;
  IF cardinality(olds) IS DISTINCT FROM cardinality(news)
    OR EXISTS (SELECT FROM unnest(olds || news) AS s (value) WHERE (s.value ~ '^v1\.[0-9a-f]{8}\.[A-Za-z0-9_-]+$') IS NOT TRUE) THEN
    RAISE EXCEPTION 'these are no sealed values' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT c.config::text INTO present FROM agent_configs c
    WHERE c.target_id = target AND c.version = of_version AND c.org_id = org FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  FOR n IN 1 .. cardinality(olds) LOOP
    IF strpos(present, '"' || olds[n] || '"') = 0 THEN
      RETURN;
    END IF;
    present := replace(present, '"' || olds[n] || '"', '"' || news[n] || '"');
  END LOOP;
  UPDATE agent_configs c SET config = present::json WHERE c.target_id = target AND c.version = of_version AND c.org_id = org;
  RETURN NEXT of_version;
END $$;
-- +goose StatementEnd

GRANT SELECT, UPDATE (config) ON agent_configs TO parley_system;
GRANT SELECT ON blob_chunks TO parley_system;
GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['sealed_values(text, text, text, text, text, int)', 'reseal_config(text, text, int, text[], text[])']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS sealed_values, reseal_config;
DROP INDEX IF EXISTS agents_sealed_tools, agents_sealed_widget, agent_configs_sealed, hooks_sealed, notification_endpoints_sealed,
  deliveries_sealed, blob_chunks_sealed;
DROP FUNCTION IF EXISTS sealed_config_keys, sealed_tools_keys, sealed_text_keys, sealed_bytes_keys;
REVOKE ALL ON agent_configs, blob_chunks FROM parley_system;

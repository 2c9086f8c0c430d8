-- +goose NO TRANSACTION
-- +goose Up
-- Widgets. As in 0006_login_sessions.sql, while binaries of the release before work: everything can be repeated.

-- What signs the visitors of an agent's widget, sealed; empty: there is none. A column of its own, for binaries of before this
-- file write the others of an agent anew, and would lose it.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE agents ADD COLUMN IF NOT EXISTS widget_secret text NOT NULL DEFAULT '';
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('agents_widget_origins') AND NOT indisvalid) THEN
    DROP INDEX agents_widget_origins;
  END IF;
END $$;
-- +goose StatementEnd

-- Which origins any agent's widget may be embedded on: preflights name no agent. Written to as agents are, which is seldom.
CREATE INDEX CONCURRENTLY IF NOT EXISTS agents_widget_origins ON agents USING gin ((widget -> 'allowedOrigins')) WITH (fastupdate = off)
  WHERE deleted_at IS NULL AND widget @> '{"enabled": true}';

-- Those of the agents whose widgets are enabled. A page names an agent, and nobody knows yet whose it is.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION parley_widgets(ids text[])
RETURNS TABLE (id text, org_id text, name text, widget jsonb, secret text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT a.id, a.org_id, a.name, a.widget, a.widget_secret FROM agents a
    WHERE a.id = ANY (ids) AND a.deleted_at IS NULL AND a.widget @> '{"enabled": true}';
END $$;
-- +goose StatementEnd

-- Those of the origins that an enabled widget of any organization lists.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION parley_widget_origins(origins text[]) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT o.origin FROM unnest(origins) AS o (origin) WHERE EXISTS (SELECT FROM agents a
    WHERE a.widget -> 'allowedOrigins' ? o.origin AND a.deleted_at IS NULL AND a.widget @> '{"enabled": true}');
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['parley_widgets(text[])', 'parley_widget_origins(text[])']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS parley_widgets, parley_widget_origins;
DROP INDEX IF EXISTS agents_widget_origins;
ALTER TABLE agents DROP COLUMN IF EXISTS widget_secret;

-- Returns the agents among the ids whose widget is enabled. A page with a widget names only an
-- agent, so the organization is not yet known.
--
-- secret is encrypted. Called by agentdb.Widgets. Takes no row locks.
DROP FUNCTION IF EXISTS parley_widgets(text[]);
CREATE OR REPLACE FUNCTION parley_widgets(ids text[])
RETURNS TABLE (id text, org_id text, name text, widget jsonb, secret text, suggestions text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT a.id, a.org_id, a.name, a.widget, a.widget_secret, a.suggestions FROM agents a
    WHERE a.id = ANY (ids) AND a.deleted_at IS NULL AND a.widget @> '{"enabled": true}';
END $$;
REVOKE EXECUTE ON FUNCTION parley_widgets FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_widgets TO parley_app;
ALTER FUNCTION parley_widgets OWNER TO parley_system;

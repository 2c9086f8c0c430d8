-- Returns those of the given origins that an enabled widget of any organization lists.
--
-- Called by agentdb.WidgetOrigins, for the CORS headers of requests that name no agent. Takes no
-- row locks.
CREATE OR REPLACE FUNCTION parley_widget_origins(origins text[]) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT o.origin FROM unnest(origins) AS o (origin) WHERE EXISTS (SELECT FROM agents a
    WHERE a.widget -> 'allowedOrigins' ? o.origin AND a.deleted_at IS NULL AND a.widget @> '{"enabled": true}');
END $$;
REVOKE EXECUTE ON FUNCTION parley_widget_origins FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_widget_origins TO parley_app;
ALTER FUNCTION parley_widget_origins OWNER TO parley_system;

-- Returns the organizations of a user, the oldest membership first.
--
-- role is the user's role in the organization. Called by accountdb. Runs as parley_system, because
-- the transaction does not act for these organizations.
CREATE OR REPLACE FUNCTION parley_memberships(member text)
RETURNS TABLE (id text, name text, created_at timestamptz, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT o.id, o.name, o.created_at, m.role FROM memberships m JOIN organizations o ON o.id = m.org_id
    WHERE m.user_id = member ORDER BY m.created_at, m.org_id
$$;
REVOKE EXECUTE ON FUNCTION parley_memberships FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_memberships TO parley_app;
ALTER FUNCTION parley_memberships OWNER TO parley_system;

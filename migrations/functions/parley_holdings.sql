-- Returns those organizations of a user that have other members or contents, with the user's role.
-- Only in these organizations, a person who takes over the account would gain something. The result
-- omits, for example, each user's first organization until it is used.
--
-- role is that of the user. Called by accountdb, which limits password resets by an organization.
-- Runs as parley_system, because the caller need not act for these organizations.
CREATE OR REPLACE FUNCTION parley_holdings(member text)
RETURNS TABLE (id text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT m.org_id, m.role FROM memberships m WHERE m.user_id = member AND (
    EXISTS (SELECT 1 FROM memberships o WHERE o.org_id = m.org_id AND o.user_id <> member)
    OR EXISTS (SELECT 1 FROM agents a WHERE a.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM api_keys k WHERE k.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM invitations i WHERE i.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM documents d WHERE d.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM runs r WHERE r.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM past_usage p WHERE p.org_id = m.org_id))
$$;
REVOKE EXECUTE ON FUNCTION parley_holdings FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_holdings TO parley_app;
ALTER FUNCTION parley_holdings OWNER TO parley_system;

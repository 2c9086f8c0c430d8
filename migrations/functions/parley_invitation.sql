-- Returns the invitation that belongs to a link's token, if the invitation is valid.
--
-- Returns no row for an unknown, expired or used invitation, and for one whose creator's API key
-- has ended. Called by accountdb. Runs as parley_system, because the reader of the link may have no
-- account.
CREATE OR REPLACE FUNCTION parley_invitation(hash bytea)
RETURNS TABLE (id text, org_id text, organization text, email text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT i.id, i.org_id, o.name, i.email, i.role FROM invitations i JOIN organizations o ON o.id = i.org_id
    WHERE i.token_hash = hash AND i.expires_at > clock_timestamp() AND (i.made_with IS NULL OR EXISTS (
      SELECT 1 FROM api_keys k WHERE k.id = i.made_with AND k.revoked_at IS NULL
        AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())))
$$;
REVOKE EXECUTE ON FUNCTION parley_invitation FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_invitation TO parley_app;
ALTER FUNCTION parley_invitation OWNER TO parley_system;

-- Returns the open invitations to the proven address of the transaction's user.
--
-- Returns no invitations for an account that has lost its address to another account. Called by
-- accountdb. Runs as parley_system, because the user is not a member of these organizations yet.
CREATE OR REPLACE FUNCTION parley_own_invitations()
RETURNS TABLE (id text, org_id text, organization text, role text, created_at timestamptz, expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT i.id, i.org_id, o.name, i.role, i.created_at, i.expires_at
    FROM users u JOIN invitations i ON lower(i.email) = lower(u.email) JOIN organizations o ON o.id = i.org_id
    WHERE u.id = (SELECT parley_user()) AND u.email_proven_at IS NOT NULL AND u.displaced_at IS NULL
      AND i.expires_at > clock_timestamp() AND (i.made_with IS NULL OR EXISTS (
        SELECT 1 FROM api_keys k WHERE k.id = i.made_with AND k.revoked_at IS NULL
          AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())))
$$;
REVOKE EXECUTE ON FUNCTION parley_own_invitations FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_own_invitations TO parley_app;
ALTER FUNCTION parley_own_invitations OWNER TO parley_system;

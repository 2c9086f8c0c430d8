-- Returns the valid login sessions among the hashes, each with the organizations and roles of its user.
--
-- key_id is empty, and org_id is null: the columns are those of parley_key_credentials, except
-- lineage. Called by accountdb.LoginCredentials.
CREATE OR REPLACE FUNCTION parley_login_credentials(hashes bytea[])
RETURNS TABLE (login_id text, key_id text, org_id text, user_id text, secret_hash bytea, expires_at timestamptz, orgs text[], roles text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT u.id, ''::text, NULL::text, u.user_id, u.token_hash, u.expires_at, s.orgs, s.roles
    FROM login_sessions u
    LEFT JOIN LATERAL (SELECT array_agg(m.org_id ORDER BY m.created_at, m.org_id) AS orgs,
      array_agg(m.role ORDER BY m.created_at, m.org_id) AS roles FROM memberships m WHERE m.user_id = u.user_id) s ON true
    WHERE u.token_hash = ANY (hashes) AND u.expires_at > clock_timestamp();
END $$;
REVOKE EXECUTE ON FUNCTION parley_login_credentials FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_login_credentials TO parley_app;
ALTER FUNCTION parley_login_credentials OWNER TO parley_system;

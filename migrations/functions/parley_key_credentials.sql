-- Returns the API keys among the ids that are not revoked, each with its hash, its lineage, and the
-- organizations and roles of its user.
--
-- A key of an organization has no user, and its arrays are null. Revoked keys are omitted. Expired
-- keys are returned: the caller compares expires_at. Called by accountdb.KeyCredentials.
CREATE OR REPLACE FUNCTION parley_key_credentials(ids text[])
RETURNS TABLE (login_id text, key_id text, lineage text, org_id text, user_id text, secret_hash bytea, expires_at timestamptz, orgs text[],
  roles text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT ''::text, k.id, coalesce(k.lineage, k.id), k.org_id, u.user_id, k.secret_hash, k.expires_at, s.orgs, s.roles
    FROM api_keys k CROSS JOIN LATERAL (SELECT CASE WHEN k.scope = 'user' THEN k.user_id END AS user_id) u
    LEFT JOIN LATERAL (SELECT array_agg(m.org_id ORDER BY m.created_at, m.org_id) AS orgs,
      array_agg(m.role ORDER BY m.created_at, m.org_id) AS roles FROM memberships m WHERE m.user_id = u.user_id) s ON true
    WHERE k.id = ANY (ids) AND k.revoked_at IS NULL;
END $$;
REVOKE EXECUTE ON FUNCTION parley_key_credentials FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_key_credentials TO parley_app;
ALTER FUNCTION parley_key_credentials OWNER TO parley_system;

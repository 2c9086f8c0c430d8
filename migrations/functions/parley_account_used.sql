-- Reports whether the transaction's user has anything that they would miss: an API key, or an organization with other
-- members or with anything in it.
CREATE OR REPLACE FUNCTION parley_account_used() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT EXISTS (SELECT FROM api_keys k WHERE k.user_id = (SELECT parley_user()))
    OR EXISTS (SELECT FROM memberships m WHERE m.user_id = (SELECT parley_user()) AND (
      EXISTS (SELECT 1 FROM memberships o WHERE o.org_id = m.org_id AND o.user_id <> m.user_id)
      OR EXISTS (SELECT 1 FROM agents a WHERE a.org_id = m.org_id)
      OR EXISTS (SELECT 1 FROM invitations i WHERE i.org_id = m.org_id)
      OR EXISTS (SELECT 1 FROM documents d WHERE d.org_id = m.org_id)
      OR EXISTS (SELECT 1 FROM runs r WHERE r.org_id = m.org_id)
      OR EXISTS (SELECT 1 FROM past_usage p WHERE p.org_id = m.org_id)
      OR EXISTS (SELECT 1 FROM api_keys k WHERE k.org_id = m.org_id)
      OR EXISTS (SELECT 1 FROM budgets b WHERE b.org_id = m.org_id)
      OR EXISTS (SELECT 1 FROM notification_endpoints e WHERE e.org_id = m.org_id)))
$$;
REVOKE EXECUTE ON FUNCTION parley_account_used FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_account_used TO parley_app;
ALTER FUNCTION parley_account_used OWNER TO parley_system;

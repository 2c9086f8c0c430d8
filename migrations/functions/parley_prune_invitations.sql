-- Deletes invitations a day after their expiry, and returns the number of deleted invitations.
--
-- Called by accountdb.PruneLogins. Locks the rows that it deletes.
CREATE OR REPLACE FUNCTION parley_prune_invitations() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  WITH gone AS (DELETE FROM invitations WHERE expires_at <= clock_timestamp() - interval '1 day' RETURNING id) SELECT count(*) FROM gone
$$;
REVOKE EXECUTE ON FUNCTION parley_prune_invitations FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_prune_invitations TO parley_app;
ALTER FUNCTION parley_prune_invitations OWNER TO parley_system;

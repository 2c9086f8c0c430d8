-- +goose NO TRANSACTION
-- +goose Up
-- The addresses that have sent a hook a signed delivery: a restart does not make strangers of them. As in 0015_hooks.sql, while binaries of
-- the release before work: a new table, functions of new names, and everything can be repeated.

-- client is an address, or the /64 of an IPv6 one. The service keeps no more than 100 of a hook, those that were verified last.
CREATE TABLE IF NOT EXISTS hook_senders (
  hook_id      text COLLATE "C" NOT NULL REFERENCES hooks (id) ON DELETE CASCADE,
  client       text COLLATE "C" NOT NULL,
  org_id       text COLLATE "C" NOT NULL,
  verified_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (hook_id, client)
);
CREATE INDEX IF NOT EXISTS hook_senders_verified ON hook_senders (verified_at);

-- +goose StatementBegin
DO $$
BEGIN
  ALTER TABLE hook_senders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
  DROP POLICY IF EXISTS system ON hook_senders;
  DROP POLICY IF EXISTS tenant ON hook_senders;
  CREATE POLICY system ON hook_senders TO parley_system USING (true) WITH CHECK (true);
  CREATE POLICY tenant ON hook_senders TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[]))
    WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]));
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE, DELETE ON hook_senders TO parley_app;
GRANT SELECT, DELETE ON hook_senders TO parley_system;

-- receiving_hook of 0015_hooks.sql, with the senders that were verified within a time.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION receiving_hook_2(hook text, known interval)
  RETURNS TABLE (id text, org_id text, name text, agent_id text, key_id text, source text, secret text, previous_secret text,
    previous_until timestamptz, signature_header text, delivery_id_header text, message_template text, filter json, coalescing json,
    enabled boolean, created_at timestamptz, updated_at timestamptz, key_scope text, key_user_id text, senders text[])
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT h.id, h.org_id, h.name, h.agent_id, h.key_id, h.source, h.secret,
    CASE WHEN h.previous_until > clock_timestamp() THEN h.previous_secret END, CASE WHEN h.previous_until > clock_timestamp() THEN h.previous_until END,
    h.signature_header, h.delivery_id_header, h.message_template, h.filter, h.coalescing, h.enabled, h.created_at, h.updated_at, k.scope, k.user_id,
    ARRAY(SELECT s.client FROM hook_senders s WHERE s.hook_id = h.id AND s.verified_at > clock_timestamp() - known)
  FROM hooks h JOIN api_keys k ON k.id = h.key_id AND k.org_id = h.org_id
  WHERE h.id = hook AND h.deleted_at IS NULL AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp());
END $$;
-- +goose StatementEnd

-- Removes up to so many senders that were not verified within a time, and does what prune_deliveries of 0015_hooks.sql does.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION prune_deliveries_2(most bigint, known interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  due tid[] := ARRAY(SELECT s.ctid FROM hook_senders s WHERE s.verified_at <= now() - known ORDER BY s.verified_at LIMIT most);
BEGIN
  DELETE FROM hook_senders s WHERE s.ctid = ANY (due) AND s.verified_at <= now() - known; -- one may have been verified meanwhile
  RETURN greatest(cardinality(due), prune_deliveries(most));
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['receiving_hook_2(text, interval)', 'prune_deliveries_2(bigint, interval)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS receiving_hook_2, prune_deliveries_2;
DROP TABLE IF EXISTS hook_senders;

-- +goose NO TRANSACTION
-- +goose Up
-- Who has proven an address, and which account holds it. As in 0004_tenancy.sql, binaries of the release before run
-- beside this: they find one account of each address, as before.

-- email_proven_at is set by evidence that no other tenant can make: an OpenID provider verified the address, or whoever
-- runs the service made the link that the person used. displaced_at is set once another account holds the address.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE users
    ADD COLUMN IF NOT EXISTS email_proven_at  timestamptz,
    ADD COLUMN IF NOT EXISTS displaced_at     timestamptz;
END $$;
-- +goose StatementEnd

-- Providers verified the addresses of identities. The owner that the service makes for itself is its operator's.
UPDATE users u SET email_proven_at = clock_timestamp()
  WHERE u.email_proven_at IS NULL AND (u.email = 'owner@parley.local' OR EXISTS (SELECT FROM identities i WHERE i.user_id = u.id));

-- An interrupted index build leaves an invalid index under the name.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  FOREACH name IN ARRAY ARRAY['users_holder', 'users_address', 'invitations_email'] LOOP
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(name) AND NOT indisvalid) THEN
      EXECUTE format('DROP INDEX %I', name);
    END IF;
  END LOOP;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS users_address ON users (lower(email));
CREATE INDEX CONCURRENTLY IF NOT EXISTS invitations_email ON invitations (lower(email));
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS users_holder ON users (lower(email)) WHERE displaced_at IS NULL;
-- The new index takes the name, by which binaries recognise that an address is taken.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  IF to_regclass('users_holder') IS NOT NULL THEN
    DROP INDEX IF EXISTS users_email;
    ALTER INDEX users_holder RENAME TO users_email;
  END IF;
END $$;
-- +goose StatementEnd

-- The open invitations to the proven address of the transaction's user.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- Whether the transaction's user has anything that they would miss: other members of an organization of theirs, or
-- anything in it. API keys of an organization without anything in it are nothing.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION parley_account_used() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT EXISTS (SELECT FROM memberships m WHERE m.user_id = (SELECT parley_user()) AND (
    EXISTS (SELECT 1 FROM memberships o WHERE o.org_id = m.org_id AND o.user_id <> m.user_id)
    OR EXISTS (SELECT 1 FROM agents a WHERE a.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM invitations i WHERE i.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM documents d WHERE d.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM runs r WHERE r.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM past_usage p WHERE p.org_id = m.org_id)))
$$;
-- +goose StatementEnd

GRANT SELECT ON users TO parley_system;
GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['parley_own_invitations()', 'parley_account_used()']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
-- An address belongs to one account again: displaced ones keep theirs with their id.
UPDATE users SET email = id || '.' || email WHERE displaced_at IS NOT NULL;
DROP INDEX IF EXISTS users_email, users_address, invitations_email;
CREATE UNIQUE INDEX users_email ON users (lower(email));
DROP FUNCTION IF EXISTS parley_own_invitations(), parley_account_used();
REVOKE ALL ON users FROM parley_system;
ALTER TABLE users DROP COLUMN IF EXISTS email_proven_at, DROP COLUMN IF EXISTS displaced_at;

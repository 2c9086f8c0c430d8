-- +goose Up
-- All tables that this changes, before it changes any, or none, and in the order in which logging in and signing up
-- take them; others have orders of their own. The wait is over before deadlock_timeout, so that nobody becomes a
-- deadlock's victim; migrations are tried again.
SELECT set_config('statement_timeout', greatest(1, setting::int * 4 / 5)::text, true) FROM pg_settings WHERE name = 'deadlock_timeout';
LOCK TABLE login_links, users, organizations, memberships, api_keys IN ACCESS EXCLUSIVE MODE;
SET LOCAL statement_timeout = DEFAULT;

-- Whose rows a transaction may see beside those of organizations: a user's own API keys belong to none.
-- +goose StatementBegin
CREATE FUNCTION parley_user() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT nullif(current_setting('parley.user', true), '')
$$;
-- +goose StatementEnd

-- Whose invitation an account was made by: that organization's admins may set its password.
ALTER TABLE users ADD COLUMN invited_to text COLLATE "C" REFERENCES organizations (id) ON DELETE SET NULL;

-- What a one-time link is for: to log in, or to set a new password. One for a password that an admin made is
-- bounded: void once the person belongs elsewhere, too, or has a higher role than its maker. made_by is a user, made_with
-- the API key that they, or the organization, used: what was made with a key holds no longer than the key.
ALTER TABLE login_links
  ADD COLUMN kind     text NOT NULL DEFAULT 'login' CHECK (kind IN ('login', 'reset')),
  ADD COLUMN org_id   text COLLATE "C" REFERENCES organizations (id) ON DELETE CASCADE,
  ADD COLUMN role     text,
  ADD COLUMN made_by  text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN made_with text COLLATE "C";
CREATE INDEX login_links_user ON login_links (user_id);
CREATE INDEX login_links_maker ON login_links (org_id, made_by) WHERE org_id IS NOT NULL;

-- Who a person is at an OpenID provider.
CREATE TABLE identities (
  issuer      text COLLATE "C" NOT NULL,
  subject     text COLLATE "C" NOT NULL,
  user_id     text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_user ON identities (user_id);

-- An address that may become a member by a link. Accepting deletes the row.
CREATE TABLE invitations (
  id          text COLLATE "C" PRIMARY KEY,
  org_id      text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  email       text NOT NULL,
  role        text NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  token_hash  bytea NOT NULL UNIQUE,
  made_by     text COLLATE "C" NOT NULL,
  made_with   text COLLATE "C",
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX invitations_address ON invitations (org_id, lower(email));
CREATE INDEX invitations_ended ON invitations (expires_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON identities, invitations TO parley_app;
GRANT SELECT ON organizations, memberships, login_sessions, api_keys, invitations TO parley_system;
GRANT UPDATE ON api_keys TO parley_system;
GRANT DELETE ON invitations TO parley_system;

-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['organizations', 'memberships', 'invitations', 'api_keys'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %1$I TO parley_app USING (%2$I = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (%2$I = ANY ((SELECT parley_organizations())::text[]))', name, CASE name WHEN 'organizations' THEN 'id' ELSE 'org_id' END);
  END LOOP;
END $$;
-- +goose StatementEnd
-- A user's own key belongs to no organization.
CREATE POLICY owner ON api_keys TO parley_app
  USING (org_id IS NULL AND user_id = (SELECT parley_user())) WITH CHECK (org_id IS NULL AND user_id = (SELECT parley_user()));

-- What precedes an organization: recognising credentials, a user's memberships, links.
-- +goose StatementBegin
CREATE FUNCTION parley_key_credentials(ids text[])
RETURNS TABLE (login_id text, key_id text, org_id text, user_id text, secret_hash bytea, expires_at timestamptz, orgs text[], roles text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT ''::text, k.id, k.org_id, u.user_id, k.secret_hash, k.expires_at, s.orgs, s.roles
    FROM api_keys k CROSS JOIN LATERAL (SELECT CASE WHEN k.scope = 'user' THEN k.user_id END AS user_id) u
    LEFT JOIN LATERAL (SELECT array_agg(m.org_id ORDER BY m.created_at, m.org_id) AS orgs,
      array_agg(m.role ORDER BY m.created_at, m.org_id) AS roles FROM memberships m WHERE m.user_id = u.user_id) s ON true
    WHERE k.id = ANY (ids) AND k.revoked_at IS NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION parley_login_credentials(hashes bytea[])
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
-- +goose StatementEnd

-- Rows are locked in the order of their ids, as everywhere, so that two ingresses cannot deadlock.
-- +goose StatementBegin
CREATE FUNCTION parley_touch_keys(ids text[], used timestamptz[]) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, l.at)
    FROM (SELECT a.id, u.at FROM unnest(ids, used) AS u (id, at)
          JOIN api_keys a ON a.id = u.id ORDER BY a.id FOR UPDATE OF a) l
    WHERE k.id = l.id
$$;
-- +goose StatementEnd

-- The organizations of a user, the oldest membership first.
-- +goose StatementBegin
CREATE FUNCTION parley_memberships(member text)
RETURNS TABLE (id text, name text, created_at timestamptz, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT o.id, o.name, o.created_at, m.role FROM memberships m JOIN organizations o ON o.id = m.org_id
    WHERE m.user_id = member ORDER BY m.created_at, m.org_id
$$;
-- +goose StatementEnd

-- The organizations of a user that somebody who gets into the account would gain something in: all but those that
-- nobody else belongs to and that hold nothing, as everybody's first one does until it is used.
-- +goose StatementBegin
CREATE FUNCTION parley_holdings(member text)
RETURNS TABLE (id text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT m.org_id, m.role FROM memberships m WHERE m.user_id = member AND (
    EXISTS (SELECT 1 FROM memberships o WHERE o.org_id = m.org_id AND o.user_id <> member)
    OR EXISTS (SELECT 1 FROM agents a WHERE a.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM api_keys k WHERE k.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM invitations i WHERE i.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM runs r WHERE r.org_id = m.org_id))
$$;
-- +goose StatementEnd

-- The invitation that a link's token names, while it holds.
-- +goose StatementBegin
CREATE FUNCTION parley_invitation(hash bytea)
RETURNS TABLE (id text, org_id text, organization text, email text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT i.id, i.org_id, o.name, i.email, i.role FROM invitations i JOIN organizations o ON o.id = i.org_id
    WHERE i.token_hash = hash AND i.expires_at > clock_timestamp() AND (i.made_with IS NULL OR EXISTS (
      SELECT 1 FROM api_keys k WHERE k.id = i.made_with AND k.revoked_at IS NULL
        AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())))
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION parley_prune_invitations() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  WITH gone AS (DELETE FROM invitations WHERE expires_at <= clock_timestamp() - interval '1 day' RETURNING id) SELECT count(*) FROM gone
$$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in the one before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['parley_key_credentials(text[])', 'parley_login_credentials(bytea[])', 'parley_touch_keys(text[],timestamptz[])',
    'parley_memberships(text)', 'parley_holdings(text)', 'parley_invitation(bytea)', 'parley_prune_invitations()']::regprocedure[]
  LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION parley_key_credentials(text[]), parley_login_credentials(bytea[]), parley_touch_keys(text[], timestamptz[]),
  parley_memberships(text), parley_holdings(text), parley_invitation(bytea), parley_prune_invitations();
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['organizations', 'memberships', 'api_keys'] LOOP
    EXECUTE format('DROP POLICY tenant ON %I', name);
    EXECUTE format('DROP POLICY system ON %I', name);
    EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY', name);
  END LOOP;
END $$;
-- +goose StatementEnd
DROP POLICY owner ON api_keys;
REVOKE ALL ON organizations, memberships, login_sessions, api_keys FROM parley_system;
DROP TABLE invitations, identities;
DELETE FROM login_links WHERE kind <> 'login';
ALTER TABLE login_links DROP COLUMN kind, DROP COLUMN org_id, DROP COLUMN role, DROP COLUMN made_by, DROP COLUMN made_with;
ALTER TABLE users DROP COLUMN invited_to;
DROP INDEX login_links_user;
DROP FUNCTION parley_user();

-- +goose Up
-- Ids are text under the C collation: compared as bytes, which for ids of one kind is by time.
CREATE TABLE organizations (
  id          text COLLATE "C" PRIMARY KEY,
  name        text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE users (
  id             text COLLATE "C" PRIMARY KEY,
  email          text NOT NULL,
  name           text NOT NULL,
  password_hash  text NOT NULL DEFAULT '', -- argon2id; empty: this user cannot log in by password
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX users_email ON users (lower(email));

CREATE TABLE memberships (
  org_id      text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  user_id     text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  role        text NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (user_id, org_id)
);
CREATE INDEX memberships_org ON memberships (org_id);

-- Browser and bearer sessions. Only the SHA-256 of a token is kept.
CREATE TABLE login_sessions (
  token_hash  bytea PRIMARY KEY,
  user_id     text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at  timestamptz NOT NULL
);
CREATE INDEX login_sessions_user ON login_sessions (user_id);

-- One-time links: a use sets used_at, and a link is used once.
CREATE TABLE login_links (
  token_hash  bytea PRIMARY KEY,
  user_id     text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at  timestamptz NOT NULL,
  used_at     timestamptz
);

-- scope 'organization': org_id is set and the key acts as its admin.
-- scope 'user': org_id is null, the request names the organization, and the key acts as user_id there.
CREATE TABLE api_keys (
  id            text COLLATE "C" PRIMARY KEY,
  scope         text NOT NULL CHECK (scope IN ('organization', 'user')),
  org_id        text COLLATE "C" REFERENCES organizations (id) ON DELETE CASCADE,
  user_id       text COLLATE "C" REFERENCES users (id) ON DELETE CASCADE,
  name          text NOT NULL,
  secret_hash   bytea NOT NULL,
  last_four     text NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at    timestamptz,
  revoked_at    timestamptz,
  last_used_at  timestamptz,
  CHECK ((scope = 'organization') = (org_id IS NOT NULL)),
  CHECK (scope = 'organization' OR user_id IS NOT NULL)
);
CREATE INDEX api_keys_org ON api_keys (org_id);
CREATE INDEX api_keys_user ON api_keys (user_id);

-- One row per demo client address: when its requests of the last minute came.
CREATE TABLE demo_clients (
  address  text PRIMARY KEY,
  hits     timestamptz[] NOT NULL
);
CREATE INDEX demo_clients_hits ON demo_clients ((hits[array_upper(hits, 1)]));
-- +goose Down
DROP TABLE demo_clients, api_keys, login_links, login_sessions, memberships, users, organizations;

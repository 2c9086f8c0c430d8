-- +goose Up
-- The schema of Parley: types, tables, indexes, policies and rights. Functions have a file each in functions/;
-- only those that a policy or an index needs are defined here.
--
-- Conventions:
--   Ids are text with the collation "C". They compare as bytes, so ids of one kind sort by time.
--   A table with rows of organizations has an org_id and row-level security: see the end of this file.
--   A fence is a number that each claim raises. A worker writes under the fence of its claim, so a worker whose
--   lease has been taken over writes nothing.
--   A sweep_after is the time from which the sweeper checks whether a row may be removed.

-- ---------------------------------------------------------------------------------------------------------------------
-- Roles and extensions
--
-- The service acts as parley_app. parley_system owns the functions that read across organizations.
-- Roles belong to the whole server, so another database's migration may have created them.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
  me text := quote_ident(current_user);
BEGIN
  FOREACH name IN ARRAY ARRAY['parley_app', 'parley_system'] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN', name);
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL; -- another database's migration created it in the meantime
    END;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = name AND (rolsuper OR rolbypassrls)) THEN
      RAISE EXCEPTION 'the role % bypasses row-level security: let an administrator run ALTER ROLE % NOSUPERUSER NOBYPASSRLS', name, name;
    END IF;
    IF NOT pg_has_role(current_user, name, 'USAGE') THEN
      EXECUTE format('GRANT %I TO %s', name, me);
    END IF;
  END LOOP;

  IF pg_has_role('parley_app', 'parley_system', 'MEMBER') THEN
    RAISE EXCEPTION 'parley_app is a member of parley_system: let an administrator run REVOKE parley_system FROM parley_app';
  END IF;

  GRANT USAGE ON SCHEMA public TO parley_app, parley_system;
  -- The migrator gives functions to parley_system, and the owner of a function must have the right to create it.
  GRANT CREATE ON SCHEMA public TO parley_system;
  IF NOT has_schema_privilege('parley_app', 'public', 'USAGE') OR NOT has_schema_privilege('parley_system', 'public', 'USAGE')
    OR NOT has_schema_privilege('parley_system', 'public', 'CREATE') THEN
    RAISE insufficient_privilege;
  END IF;
  REVOKE CREATE ON SCHEMA public FROM parley_system;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE insufficient_privilege USING MESSAGE = format('%s may not make the roles of row-level security. Let an administrator run '
    'in this database, then migrate again: CREATE ROLE parley_app NOLOGIN; CREATE ROLE parley_system NOLOGIN; '
    'GRANT parley_app, parley_system TO %s; GRANT USAGE, CREATE ON SCHEMA public TO %s WITH GRANT OPTION', me, me, me);
END $$;
-- +goose StatementEnd

-- pg_trgm and btree_gin come with PostgreSQL. A role that may create objects in the database may create them.
-- pgvector is used where it is installed; it only speeds up the comparison of vectors.
-- +goose StatementBegin
DO $$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['pg_trgm', 'btree_gin'] LOOP
    BEGIN
      EXECUTE format('CREATE EXTENSION IF NOT EXISTS %I SCHEMA public', wanted);
    EXCEPTION
      WHEN insufficient_privilege THEN
        RAISE insufficient_privilege USING MESSAGE = format('documents are searched with the extension %s, which %s may not create: '
          'let an administrator run this in the database, then migrate again: CREATE EXTENSION %s SCHEMA public', wanted, current_user, wanted);
      WHEN undefined_file THEN
        RAISE undefined_file USING MESSAGE = format('documents are searched with the extension %s, which is not installed on the '
          'database server: it comes with PostgreSQL''s contrib modules; then migrate again', wanted);
    END;
    IF NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = wanted AND e.extnamespace = 'public'::regnamespace) THEN
      RAISE EXCEPTION 'the extension % is not in the schema public: let an administrator run ALTER EXTENSION % SET SCHEMA public, then migrate again', wanted, wanted;
    END IF;
  END LOOP;

  BEGIN
    CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;
  EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'pgvector is not used: %', SQLERRM;
  END;
END $$;
-- +goose StatementEnd

-- The functions whose files the migrator has applied. A function that the service calls is current if its digests are
-- those of its file. Triggers have a digest of their own, because applying them locks their tables.
CREATE TABLE function_files (
  name             text COLLATE "C" PRIMARY KEY,
  function_digest  text NOT NULL,
  trigger_digest   text NOT NULL
);

-- ---------------------------------------------------------------------------------------------------------------------
-- Accounts

CREATE TABLE organizations (
  id          text COLLATE "C" PRIMARY KEY,
  name        text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Several accounts may have the same address, but only one of them holds the address. The others
-- have a displaced_at.
CREATE TABLE users (
  id               text COLLATE "C" PRIMARY KEY,
  email            text NOT NULL,
  name             text NOT NULL,
  password_hash    text NOT NULL DEFAULT '', -- argon2id; empty: the user cannot log in by password
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  invited_to       text COLLATE "C" REFERENCES organizations (id) ON DELETE SET NULL, -- its admins may set the password
  -- Since when the address is proven by evidence that no other organization can produce: an OpenID provider verified
  -- the address, or the user opened a link that the operator made.
  email_proven_at  timestamptz,
  displaced_at     timestamptz -- since when another account holds the address
);
CREATE INDEX users_address ON users (lower(email));
CREATE UNIQUE INDEX users_email ON users (lower(email)) WHERE displaced_at IS NULL;

-- The identity of a user at an OpenID provider.
CREATE TABLE identities (
  issuer      text COLLATE "C" NOT NULL,
  subject     text COLLATE "C" NOT NULL,
  user_id     text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_user ON identities (user_id);

CREATE TABLE memberships (
  org_id      text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  user_id     text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  role        text NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (user_id, org_id)
);
CREATE INDEX memberships_org ON memberships (org_id);

-- An invitation of an address, by a link. Acceptance deletes the row.
CREATE TABLE invitations (
  id          text COLLATE "C" PRIMARY KEY,
  org_id      text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  email       text NOT NULL,
  role        text NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  token_hash  bytea NOT NULL UNIQUE,
  made_by     text COLLATE "C" NOT NULL, -- a user
  made_with   text COLLATE "C",          -- an API key; the invitation is valid no longer than the key
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX invitations_address ON invitations (org_id, lower(email));
CREATE INDEX invitations_ended ON invitations (expires_at);
CREATE INDEX invitations_email ON invitations (lower(email));

-- Browser and bearer sessions. Only the SHA-256 of a token is stored.
CREATE TABLE login_sessions (
  token_hash    bytea PRIMARY KEY,
  user_id       text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at    timestamptz NOT NULL,
  id            text COLLATE "C" NOT NULL,
  user_agent    text NOT NULL DEFAULT '',
  address       text NOT NULL DEFAULT '',
  last_used_at  timestamptz
);
CREATE INDEX login_sessions_user ON login_sessions (user_id);
CREATE UNIQUE INDEX login_sessions_id ON login_sessions (id);

-- One-time links: a use sets used_at. A link that an admin made to reset a password has an org_id and a role. The
-- link is void when the user joins another organization, or has a higher role than the admin who made it.
CREATE TABLE login_links (
  token_hash  bytea PRIMARY KEY,
  user_id     text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at  timestamptz NOT NULL,
  used_at     timestamptz,
  kind        text NOT NULL DEFAULT 'login' CHECK (kind IN ('login', 'reset')),
  org_id      text COLLATE "C" REFERENCES organizations (id) ON DELETE CASCADE,
  role        text,
  made_by     text COLLATE "C" NOT NULL DEFAULT '', -- a user
  made_with   text COLLATE "C"                      -- an API key; the link is valid no longer than the key
);
CREATE INDEX login_links_user ON login_links (user_id);
CREATE INDEX login_links_maker ON login_links (org_id, made_by) WHERE org_id IS NOT NULL;

-- A key of scope 'organization' has an org_id and acts as an admin of that organization. A key of scope 'user' has
-- none: the request names the organization, and the key acts as user_id there.
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
  lineage       text COLLATE "C", -- the first key of the rotations that led to this one; null: the key itself
  CHECK ((scope = 'organization') = (org_id IS NOT NULL)),
  CHECK (scope = 'organization' OR user_id IS NOT NULL)
);
CREATE INDEX api_keys_org ON api_keys (org_id);
CREATE INDEX api_keys_user ON api_keys (user_id);

-- ---------------------------------------------------------------------------------------------------------------------
-- Agents

CREATE TABLE agents (
  id               text COLLATE "C" PRIMARY KEY,
  org_id           text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name             text NOT NULL,
  description      text NOT NULL,
  system_prompt    text NOT NULL,
  model            text NOT NULL,
  tools            jsonb NOT NULL, -- header values and signing secrets are sealed
  allowed_callers  text[] NOT NULL,
  widget           jsonb NOT NULL,
  version          int NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  deleted_at       timestamptz,
  fallback_models  text[] NOT NULL DEFAULT '{}',
  widget_secret    text NOT NULL DEFAULT '' -- key with which a site signs the identities of its visitors; sealed; empty: none
);
CREATE INDEX agents_org ON agents (org_id, id) WHERE deleted_at IS NULL;
-- A CORS preflight names an origin and no agent. Agents rarely change, so the index has no list of pending entries.
CREATE INDEX agents_widget_origins ON agents USING gin ((widget -> 'allowedOrigins')) WITH (fastupdate = off)
  WHERE deleted_at IS NULL AND widget @> '{"enabled": true}';

CREATE TABLE templates (
  id                  text COLLATE "C" PRIMARY KEY,
  position            int NOT NULL, -- order in lists
  name                text NOT NULL,
  description         text NOT NULL,
  system_prompt       text NOT NULL,
  model               text NOT NULL,
  tools               jsonb NOT NULL,
  suggested_messages  text[] NOT NULL,
  version             int NOT NULL
);

-- The configuration of each version of an agent or template. A run uses the version that was current when it was
-- accepted. A row never changes, except that its sealed values may be sealed with another key, so workers cache rows.
CREATE TABLE agent_configs (
  target_id  text COLLATE "C" NOT NULL, -- agents.id or templates.id
  version    int NOT NULL,
  config     json NOT NULL,
  org_id     text COLLATE "C", -- null: of a template, which everybody may read
  PRIMARY KEY (target_id, version)
);

-- ---------------------------------------------------------------------------------------------------------------------
-- Sessions

-- A session groups the runs of one target and principal. The runs are numbered, and last_seq is the number of the
-- newest. Acceptance of a run locks the session's row, so the numbers are in commit order.
CREATE TABLE sessions (
  ref         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key         bytea NOT NULL UNIQUE, -- a hash over organization, target, principal and session_id
  org_id      text COLLATE "C" NOT NULL,
  target_id   text COLLATE "C" NOT NULL,
  principal   text COLLATE "C" NOT NULL,
  session_id  text COLLATE "C" NOT NULL, -- the name that the client chose
  last_seq    int NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Lists of sessions, newest first: those of an organization, and those of a principal. Automations have one principal
-- and a session for each run; the second index omits the sessions of automations.
CREATE INDEX sessions_org ON sessions (org_id, ref);
CREATE INDEX sessions_principal ON sessions (org_id, principal, ref) WHERE principal <> 'system';
-- Lookup by name. A session of a single run is named auto_ and the end of the run's id; it is found by its run.
CREATE INDEX sessions_named ON sessions (org_id, session_id, principal)
  WHERE NOT (session_id LIKE 'auto\_%' AND length(session_id) = 31);

-- ---------------------------------------------------------------------------------------------------------------------
-- Runs

-- The request of a run and, once it has finished, its result. The state of an unfinished run is in open_runs.
-- A row is written twice. The second write touches no indexed column, so it updates no index.
CREATE TABLE runs (
  id                text COLLATE "C" PRIMARY KEY,
  org_id            text COLLATE "C" NOT NULL,
  agent_id          text COLLATE "C",
  template_id       text COLLATE "C",
  config_version    int NOT NULL,
  session_ref       bigint NOT NULL,
  seq               int NOT NULL,
  session_id        text NOT NULL,
  principal         text NOT NULL,
  caller_kind       text NOT NULL,
  trigger_type      text NOT NULL,
  automation_id     text,
  idempotency_key   text,
  idempotency_hash  bytea, -- over organization, endpoint, scope and key
  fingerprint       bytea, -- over the request; distinguishes a retry from another request with the same key
  input             json NOT NULL,
  retention         int NOT NULL, -- seconds after the finish; 0: kept until its session is erased
  sweep_after       timestamptz,
  created_at        timestamptz NOT NULL,
  -- The columns down to expires_at are null until the run has finished.
  status            text,
  result            text, -- the run object as it was rendered at the finish; each replay returns these bytes
  answer            text,
  attempts          int,
  input_tokens      bigint,
  output_tokens     bigint,
  cost_micros       bigint,
  finished_at       timestamptz,
  expires_at        timestamptz,
  started_at        timestamptz, -- set at the finish, as are end_fence and end_n, which number the last event
  end_fence         bigint,
  end_n             int,
  key_id            text COLLATE "C", -- the API key of the request; null: none
  sandbox_ms        bigint, -- duration of its codeExecution calls; null or 0: it made none
  summary           json,   -- of a result too large to be read for a list; otherwise null
  CHECK ((agent_id IS NULL) <> (template_id IS NULL))
) WITH (fillfactor = 60);
CREATE UNIQUE INDEX runs_idempotency ON runs (idempotency_hash) WHERE idempotency_hash IS NOT NULL;
CREATE UNIQUE INDEX runs_session ON runs (session_ref, seq);
CREATE INDEX runs_org ON runs (org_id, id);
CREATE INDEX runs_sweep ON runs (sweep_after) WHERE sweep_after IS NOT NULL;
CREATE INDEX runs_automation ON runs (org_id, automation_id COLLATE "C", id) WHERE automation_id IS NOT NULL;

-- The journal of a run: each completed model turn and tool call, in order.
CREATE TABLE steps (
  run_id      text COLLATE "C" NOT NULL,
  n           int NOT NULL,
  fence       bigint NOT NULL,
  step        json NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  org_id      text COLLATE "C" NOT NULL,
  PRIMARY KEY (run_id, n)
);

-- The events that the attempts of a run have published, in chunks: one line for each event, "type data", numbered from
-- first_n.
CREATE TABLE run_events (
  run_id   text COLLATE "C" NOT NULL,
  org_id   text COLLATE "C" NOT NULL,
  fence    bigint NOT NULL,
  first_n  int NOT NULL,
  last_n   int NOT NULL,
  events   text NOT NULL,
  PRIMARY KEY (run_id, fence, first_n)
);

-- The attempts of runs that needed more than one: each attempt that did not finish the run, and each later one. Also
-- each wait for a person, after the wait has ended. The fence is the one under which the attempt wrote.
CREATE TABLE run_attempts (
  run_id    text COLLATE "C" NOT NULL,
  fence     bigint NOT NULL,
  org_id    text COLLATE "C" NOT NULL,
  kind      text NOT NULL CHECK (kind IN ('attempt', 'wait')),
  attempt   int NOT NULL, -- its number; of a wait, the number of the attempt before it
  began_at  timestamptz NOT NULL,
  ended_at  timestamptz, -- null: at the run's finish, or unknown so far
  status    text CHECK (status IN ('completed', 'failed', 'lost')),
  code      text,        -- of the error that ended it; of a wait, the decision
  message   text,        -- why it ended
  call_id   text,        -- of a wait: the call to decide on
  PRIMARY KEY (run_id, fence)
);

-- The part of a spoken answer that was played before the user interrupted it.
CREATE TABLE heard (
  run_id      text COLLATE "C" PRIMARY KEY,
  org_id      text COLLATE "C" NOT NULL,
  text        text NOT NULL, -- empty: nothing was played
  audio_ms    bigint NOT NULL CHECK (audio_ms >= 0),
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- ---------------------------------------------------------------------------------------------------------------------
-- The queue

-- The state of a run that has not finished. The row lives from acceptance to the finish, so the table is as small as
-- the work in hand, however many runs there were.
CREATE TABLE open_runs (
  run_id             text COLLATE "C" PRIMARY KEY,
  org_id             text COLLATE "C" NOT NULL,
  agent_id           text COLLATE "C",
  session_ref        bigint NOT NULL,
  seq                int NOT NULL,
  lane               text NOT NULL,
  status             text NOT NULL CHECK (status IN ('queued', 'running', 'requires_action')),
  dispatched         boolean NOT NULL, -- its job was published or it is running: it takes a slot of its lane
  dispatch_no        int NOT NULL,
  dispatched_at      timestamptz,
  next_dispatch_at   timestamptz, -- of a dispatched, queued run: the time of the next job message
  not_before         timestamptz, -- of a delayed run: it cannot be dispatched before
  dedupe             text NOT NULL,
  reply_to           text NOT NULL,
  traceparent        text NOT NULL,
  fence              bigint NOT NULL DEFAULT 0,
  lease_until        timestamptz,
  attempts           int NOT NULL DEFAULT 0,
  deaths             int NOT NULL DEFAULT 0, -- attempts that ended with the death of their worker
  last_error         json,                   -- why the last attempt was requeued
  started_at         timestamptz,
  deadline           timestamptz NOT NULL,
  -- Of a run in requires_action: the action, its deadline, and since when the run waits.
  required_action    json,
  action_expires_at  timestamptz,
  parked_at          timestamptz,
  tool_set           json -- the tools at the start of the run, if they do not depend on its configuration alone
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
CREATE UNIQUE INDEX open_runs_session ON open_runs (session_ref, seq);
-- Guarantees that a session has at most one run that is running or requires an action.
CREATE UNIQUE INDEX open_runs_one_per_session ON open_runs (session_ref) WHERE status IN ('running', 'requires_action');
-- Counts the waiting and delayed runs of an organization, such as those of its hooks. It is created before
-- open_runs_waiting_lane: of indexes that look equally cheap, as they do while the table is small, the planner uses
-- the last one created, and dispatch needs open_runs_waiting_lane.
CREATE INDEX open_runs_waiting ON open_runs (org_id, run_id) WHERE status = 'queued' AND NOT dispatched;
CREATE INDEX open_runs_agent ON open_runs (agent_id);
CREATE INDEX open_runs_parked ON open_runs (org_id) WHERE status = 'requires_action';
CREATE INDEX open_runs_dispatched_lane ON open_runs (org_id, lane) WHERE dispatched;
-- A run waits if it lacks only a free slot. When the time not_before comes, the sweeper sets the
-- column to null.
CREATE INDEX open_runs_waiting_lane ON open_runs (org_id, lane, run_id)
  WHERE status = 'queued' AND NOT dispatched AND not_before IS NULL;
CREATE INDEX open_runs_waiting_lane_sessions ON open_runs (org_id, lane, session_ref, seq)
  WHERE status = 'queued' AND NOT dispatched AND not_before IS NULL;
CREATE INDEX open_runs_delayed ON open_runs (not_before) WHERE not_before IS NOT NULL;

-- The lanes in which runs may wait, and the oldest run of each: a hint. Acceptance adds a row. The sweeper corrects
-- all rows once a second, so a row is wrong for about a second at most after a crash or a race. If an organization
-- has no row, the finish of one of its runs dispatches no other run. A dispatch reads no run before the oldest. Runs
-- do not change rows, so few dead row versions remain.
CREATE TABLE waiting_lanes (
  org_id  text COLLATE "C" NOT NULL,
  lane    text NOT NULL,
  oldest  text COLLATE "C" NOT NULL,
  PRIMARY KEY (org_id, lane)
) WITH (fillfactor = 50);

-- A grouped statement has an array of values of one of these types as its argument. The types never change, because
-- binaries of the previous release send values of them.
CREATE TYPE new_run AS (id text, org_id text, agent_id text, template_id text, caller_kind text, principal text, session_id text,
  session_key bytea, trigger_type text, automation_id text, key text, key_hash bytea, fingerprint bytea, input json, lane text, dedupe text,
  reply_to text, traceparent text, retention int, deadline int, hold bigint, key_id text, org_no int, turn int);
CREATE TYPE run_ending AS (id text, fence bigint, status text, result text, answer text, attempts int, input_tokens bigint,
  output_tokens bigint, cost_micros bigint, finished_at timestamptz, expires_at timestamptz, started_at timestamptz, end_fence bigint,
  end_n int, sandbox_ms bigint, first_n int, last_n int, events text);

-- ---------------------------------------------------------------------------------------------------------------------
-- Tool calls: effects and sources

-- The effect ledger: one row for each call that must not be repeated freely or that a person must approve. The
-- comment of domain.EffectState shows the states. fence is the fence of the last attempt that handled the call; the
-- sender writes under the same fence.
CREATE TABLE effects (
  run_id       text COLLATE "C" NOT NULL,
  call_id      text COLLATE "C" NOT NULL,
  org_id       text COLLATE "C" NOT NULL,
  name         text NOT NULL,
  input        json NOT NULL,
  side_effect  text NOT NULL,
  key          text NOT NULL,
  state        text NOT NULL CHECK (state IN ('ready', 'awaiting', 'sending', 'done', 'denied', 'happened', 'void')),
  fence        bigint NOT NULL,
  outcome      json,
  decision     text, -- the last one
  decided_by   text,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  sent_at      timestamptz, -- the start of the last send; null: not sent, or to be sent again as if it had not been sent
  decided_at   timestamptz,
  PRIMARY KEY (run_id, call_id)
);

-- Texts that runs have read, by their SHA-256: one row for each organization, however many runs read the text.
CREATE TABLE sources (
  org_id       text COLLATE "C" NOT NULL,
  hash         bytea NOT NULL CHECK (length(hash) = 32),
  url          text NOT NULL,
  title        text NOT NULL,
  language     text NOT NULL,
  text         text NOT NULL,
  characters   int NOT NULL,
  truncated    boolean NOT NULL,
  read_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  sweep_after  timestamptz NOT NULL DEFAULT clock_timestamp() + interval '1 hour', -- when the row may be removed, if no run refers to it
  PRIMARY KEY (org_id, hash)
);
CREATE INDEX sources_sweep ON sources (sweep_after);

CREATE TABLE run_sources (
  run_id  text COLLATE "C" NOT NULL,
  org_id  text COLLATE "C" NOT NULL,
  hash    bytea NOT NULL,
  PRIMARY KEY (run_id, hash)
);
CREATE INDEX run_sources_hash ON run_sources (org_id, hash);

-- ---------------------------------------------------------------------------------------------------------------------
-- Files

-- Contents by their SHA-256: one row for each organization, however many files and documents refer to it. The chunks
-- are written before the first reference, in transactions of their own. A content is complete if all its chunks exist.
CREATE TABLE blobs (
  org_id       text COLLATE "C" NOT NULL,
  hash         bytea NOT NULL CHECK (length(hash) = 32),
  bytes        bigint NOT NULL CHECK (bytes >= 0),
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  sweep_after  timestamptz NOT NULL DEFAULT clock_timestamp() + interval '1 hour', -- when the row may be removed, if nothing refers to it
  PRIMARY KEY (org_id, hash) INCLUDE (bytes) -- sums the bytes of an organization by an index-only scan
);
CREATE INDEX blobs_sweep ON blobs (sweep_after);

-- A chunk holds 1048576 bytes of a content; the last one may hold fewer. A chunk is plain or sealed: processes that
-- seal and processes that do not may write the same content. Each 131072 bytes of a sealed chunk are sealed
-- separately, and grow by `sealed` bytes.
CREATE TABLE blob_chunks (
  org_id  text COLLATE "C" NOT NULL,
  hash    bytea NOT NULL,
  n       int NOT NULL CHECK (n >= 0),
  data    bytea NOT NULL,
  sealed  smallint NOT NULL DEFAULT 0, -- 0: plain
  CONSTRAINT blob_chunks_size CHECK (length(data) BETWEEN 1 AND 1048576 + 8 * sealed AND sealed >= 0),
  PRIMARY KEY (org_id, hash, n)
);
ALTER TABLE blob_chunks ALTER data SET STORAGE EXTERNAL; -- most contents are compressed already

-- Files that calls left in the folder of their session. A file hides earlier files of the same name until the file's
-- run is removed.
CREATE TABLE files (
  id           text COLLATE "C" PRIMARY KEY,
  org_id       text COLLATE "C" NOT NULL,
  run_id       text COLLATE "C" NOT NULL,
  call_id      text COLLATE "C" NOT NULL,
  session_ref  bigint NOT NULL,
  seq          bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  name         text COLLATE "C" NOT NULL,
  mime_type    text NOT NULL,
  bytes        bigint NOT NULL,
  hash         bytea, -- null: the call removed the file of this name
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT files_call UNIQUE (run_id, call_id, name)
);
CREATE INDEX files_newest ON files (session_ref, name, seq DESC);
CREATE INDEX files_blob ON files (org_id, hash);

-- ---------------------------------------------------------------------------------------------------------------------
-- Documents and knowledge

-- A document is claimed like a run: fence, attempts, deaths, lease_until and dispatch_no are as in open_runs. A
-- change of the content raises the fence. Light documents are processed before heavy ones; the weight includes a
-- fixed cost, and a document that has yet to be fetched has an assumed weight.
CREATE TABLE documents (
  id             text COLLATE "C" PRIMARY KEY,
  org_id         text COLLATE "C" NOT NULL,
  name           text NOT NULL,
  mime_type      text NOT NULL,
  bytes          bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0), -- of the content; 0 until it is fetched
  hash           bytea CHECK (length(hash) = 32),              -- null: the content has yet to be fetched
  url            text COLLATE "C" CHECK (octet_length(url) <= 2048),
  status         text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'processing', 'ready', 'failed')),
  error_code     text, -- of a failed document; of a queued one, why the last attempt was requeued
  error_message  text,
  pages          int,  -- null: unknown so far, or the format has none
  pages_done     int NOT NULL DEFAULT 0,
  chunks         int NOT NULL DEFAULT 0,
  language       text NOT NULL DEFAULT '',
  title          text NOT NULL DEFAULT '',
  notes          jsonb NOT NULL DEFAULT '[]',
  metadata       jsonb NOT NULL DEFAULT '{}',
  model          text, -- the model of its vectors; null: it has none
  fence          bigint NOT NULL DEFAULT 0,
  attempts       int NOT NULL DEFAULT 0,
  deaths         int NOT NULL DEFAULT 0,
  lease_until    timestamptz,
  not_before     timestamptz NOT NULL DEFAULT clock_timestamp(), -- since when it waits
  claimed_at     timestamptz,                                    -- the last claim
  deadline       timestamptz,                                    -- an hour after the first claim; null: not claimed yet
  dispatch_no    int NOT NULL DEFAULT 1,
  created_by     text COLLATE "C" NOT NULL,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  weight         bigint NOT NULL GENERATED ALWAYS AS (CASE WHEN hash IS NULL THEN 1048576 ELSE greatest(bytes, 65536) END) STORED,
  CONSTRAINT documents_have_contents CHECK (url IS NOT NULL OR hash IS NOT NULL)
) WITH (fillfactor = 70);
CREATE INDEX documents_org ON documents (org_id, id) INCLUDE (bytes);    -- lists, and the bytes of an organization's documents
CREATE INDEX documents_blob ON documents (org_id, hash) INCLUDE (bytes); -- the documents' share of an organization's contents
CREATE UNIQUE INDEX documents_content ON documents (org_id, hash) WHERE url IS NULL;
CREATE UNIQUE INDEX documents_url ON documents (org_id, url) WHERE url IS NOT NULL;
CREATE INDEX documents_waiting ON documents (org_id, not_before, id) WHERE status = 'queued';
CREATE INDEX documents_short ON documents (org_id, weight, not_before, id) WHERE status = 'queued';
CREATE INDEX documents_late ON documents (deadline, not_before) WHERE status = 'queued';
CREATE INDEX documents_claimed ON documents (claimed_at);
CREATE INDEX documents_held ON documents (org_id) WHERE status = 'processing';
CREATE INDEX documents_lost ON documents (lease_until) WHERE status = 'processing';
CREATE INDEX documents_going ON documents (org_id) WHERE error_code = 'deleting'; -- their chunks may still exist

-- The runs that were given text of a document. Deletion of the document erases them.
CREATE TABLE run_documents (
  run_id       text COLLATE "C" NOT NULL,
  org_id       text COLLATE "C" NOT NULL,
  document_id  text COLLATE "C" NOT NULL,
  PRIMARY KEY (run_id, document_id)
);
CREATE INDEX run_documents_document ON run_documents (org_id, document_id, run_id);

-- A passage of a document. It is searchable while its document is ready. Each lexeme in terms begins with a prefix
-- that stands for the organization, so the index has a list of each word for each organization: the cost of a search
-- depends only on the length of these lists. Words of headings have the weight A.
CREATE TABLE document_chunks (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org_id       text COLLATE "C" NOT NULL,
  document_id  text COLLATE "C" NOT NULL,
  n            int NOT NULL CHECK (n >= 0),
  page         int, -- null: the format has none
  headings     text[] NOT NULL,
  start_at     int NOT NULL,
  end_at       int NOT NULL,
  box          real[] CHECK (cardinality(box) = 4),
  text         text NOT NULL,
  terms        tsvector NOT NULL,
  CONSTRAINT document_chunks_number UNIQUE (document_id, n)
);
-- Ranking reads the terms of thousands of chunks, but not their texts. Terms are therefore stored in the row, and
-- texts outside it.
ALTER TABLE document_chunks ALTER terms SET STORAGE MAIN;
ALTER TABLE document_chunks SET (toast_tuple_target = 4000);
-- Each search scans all pending entries, so the list is short. An entry that is merged with others costs a third of
-- an entry that is inserted alone.
CREATE INDEX document_chunks_terms ON document_chunks USING gin (terms) WITH (gin_pending_list_limit = 256);

-- The vectors of chunks. A vector has length 1. signs has a bit for each number of the vector: 1 if the number is
-- above 0.
CREATE TABLE document_vectors (
  chunk_id     bigint PRIMARY KEY,
  org_id       text COLLATE "C" NOT NULL,
  document_id  text COLLATE "C" NOT NULL,
  model        text COLLATE "C" NOT NULL,
  signs        bit varying NOT NULL,
  vector       real[] NOT NULL
);
ALTER TABLE document_vectors ALTER vector SET STORAGE EXTERNAL; -- random numbers do not compress
ALTER TABLE document_vectors ALTER signs SET STORAGE MAIN; -- a search reads the signs of all chunks
CREATE INDEX document_vectors_org ON document_vectors (org_id, model, document_id);
CREATE INDEX document_vectors_document ON document_vectors (document_id);

-- The number of chunks in an organization's ready documents that have a term. In the row of the term '', chunks is
-- the number of all chunks, and rest is the number of documents some of whose terms are not counted. A transaction
-- that changes any row locks the row of the term '' first.
CREATE TABLE knowledge_terms (
  org_id  text COLLATE "C" NOT NULL,
  term    text COLLATE "C" NOT NULL,
  chunks  int NOT NULL,
  rest    int NOT NULL DEFAULT 0,
  PRIMARY KEY (org_id, term)
) WITH (fillfactor = 70);
-- The terms with which search_similar replaces misspelt words. That function has the same bounds
-- for their length.
CREATE INDEX knowledge_terms_alike ON knowledge_terms USING gin (org_id, term gin_trgm_ops) WITH (gin_pending_list_limit = 128)
  WHERE length(term) BETWEEN 3 AND 30;

-- The terms that each document added to knowledge_terms. The column rest is true if the document has more terms,
-- which are rare.
CREATE TABLE indexed_documents (
  document_id  text COLLATE "C" PRIMARY KEY,
  org_id       text COLLATE "C" NOT NULL,
  chunks       int NOT NULL,
  rest         bool NOT NULL,
  terms        text[] COLLATE "C" NOT NULL,
  counts       int[] NOT NULL
);

-- ---------------------------------------------------------------------------------------------------------------------
-- Hooks

-- The agent and the key are checked at each delivery, because either may have been deleted since. Sources know a hook
-- by its id, so the row of a deleted hook stays until its log is removed.
CREATE TABLE hooks (
  id                  text COLLATE "C" PRIMARY KEY,
  org_id              text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name                text NOT NULL,
  agent_id            text COLLATE "C" NOT NULL,
  key_id              text COLLATE "C" NOT NULL,
  source              text NOT NULL CHECK (source IN ('github', 'stripe', 'slack', 'standard', 'hmac', 'token')),
  secret              text NOT NULL, -- sealed, like the previous one
  previous_secret     text NOT NULL DEFAULT '',
  previous_until      timestamptz, -- the end of the previous secret; null: it is not accepted
  signature_header    text NOT NULL,
  delivery_id_header  text NOT NULL,
  message_template    text NOT NULL,
  filter              json NOT NULL,
  coalescing          json,
  enabled             boolean NOT NULL,
  created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  deleted_at          timestamptz
);
CREATE INDEX hooks_org ON hooks (org_id, id) WHERE deleted_at IS NULL;
CREATE INDEX hooks_deleted ON hooks (deleted_at) WHERE deleted_at IS NOT NULL;

-- The addresses whose deliveries to a hook were verified: an IPv4 address or the /64 of an IPv6 address. The service
-- keeps the 100 newest of each hook.
CREATE TABLE hook_senders (
  hook_id      text COLLATE "C" NOT NULL REFERENCES hooks (id) ON DELETE CASCADE,
  client       text COLLATE "C" NOT NULL,
  org_id       text COLLATE "C" NOT NULL,
  verified_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (hook_id, client)
);
CREATE INDEX hook_senders_verified ON hook_senders (verified_at);

-- One row for each delivery with a valid signature. ref is the order of arrival. Coalesced deliveries share a run.
CREATE SEQUENCE deliveries_ref;
CREATE TABLE deliveries (
  hook_id        text COLLATE "C" NOT NULL,
  delivery_id    text COLLATE "C" NOT NULL,
  ref            bigint NOT NULL DEFAULT nextval('deliveries_ref'),
  org_id         text COLLATE "C" NOT NULL,
  status         text NOT NULL CHECK (status IN ('accepted', 'coalesced', 'filtered', 'answered', 'refused')),
  event          text NOT NULL,
  run_id         text COLLATE "C", -- null: none
  bytes          bigint NOT NULL CHECK (bytes >= 0),
  body           bytea, -- null: not kept
  sealed         boolean NOT NULL DEFAULT false, -- the body is sealed
  content_type   text NOT NULL,
  error_code     text, -- why it was refused
  error_message  text,
  received_at    timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  duplicates     int NOT NULL DEFAULT 0, -- repetitions of the delivery
  sweep_after    timestamptz NOT NULL DEFAULT clock_timestamp() + interval '30 days', -- kept at least until then, and as long as its run
  PRIMARY KEY (hook_id, delivery_id)
);
CREATE INDEX deliveries_log ON deliveries (hook_id, ref);
CREATE INDEX deliveries_run ON deliveries (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX deliveries_sweep ON deliveries (sweep_after);

-- Queued runs that coalesce deliveries and are delayed until their release. A row is deleted when its run is released.
-- key_hash is the hash of the values that the deliveries have in common.
CREATE TABLE collecting (
  hook_id     text COLLATE "C" NOT NULL,
  key_hash    bytea NOT NULL,
  org_id      text COLLATE "C" NOT NULL,
  run_id      text COLLATE "C" NOT NULL,
  deliveries  bigint NOT NULL, -- how many
  input       json NOT NULL,   -- of the run, from the newest delivery
  first_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  last_at     timestamptz NOT NULL, -- the latest possible release
  closes_at   timestamptz NOT NULL, -- the release
  PRIMARY KEY (hook_id, key_hash)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX collecting_run ON collecting (run_id);
CREATE INDEX collecting_closes ON collecting (closes_at);

-- ---------------------------------------------------------------------------------------------------------------------
-- Notifications

-- failures counts the consecutive failed attempts, since failing_since. Secrets are sealed; the previous one is valid
-- until previous_until.
CREATE TABLE notification_endpoints (
  id               text COLLATE "C" PRIMARY KEY,
  org_id           text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  url              text NOT NULL,
  description      text NOT NULL,
  events           text[] NOT NULL,
  agent_id         text COLLATE "C", -- only its runs are reported; null: all runs
  enabled          boolean NOT NULL,
  disabled_reason  text,             -- null: the service did not disable it
  disabled_at      timestamptz,
  secret           text NOT NULL,
  previous_secret  text,
  previous_until   timestamptz,
  failures         int NOT NULL DEFAULT 0,
  failing_since    timestamptz,
  last_success_at  timestamptz,
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  deleted_at       timestamptz       -- the row is removed after its notifications
);
CREATE INDEX notification_endpoints_org ON notification_endpoints (org_id, id);
CREATE INDEX notification_endpoints_told ON notification_endpoints (org_id) WHERE enabled;
CREATE INDEX notification_endpoints_open ON notification_endpoints (id) WHERE enabled AND deleted_at IS NULL;
CREATE INDEX notification_endpoints_deleted ON notification_endpoints (deleted_at) WHERE deleted_at IS NOT NULL;

-- One event for one endpoint. data is the message. If the message has yet to be rendered, source holds the action of
-- the waiting run or the row of the document. Neither outlives the run.
CREATE TABLE notifications (
  id               text COLLATE "C" PRIMARY KEY,
  org_id           text COLLATE "C" NOT NULL,
  endpoint_id      text COLLATE "C" NOT NULL,
  event            text NOT NULL,
  subject_id       text COLLATE "C" NOT NULL, -- the run or document
  n                bigint NOT NULL,           -- distinguishes events of one kind about one subject
  source           text,
  data             text,
  status           text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
  attempts         int NOT NULL DEFAULT 0,
  fence            bigint NOT NULL DEFAULT 0,
  lease_until      timestamptz, -- during an attempt
  next_attempt_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  response_status  int,
  error            text,
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  delivered_at     timestamptz
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX notifications_once ON notifications (subject_id, endpoint_id, event, n);
CREATE INDEX notifications_org ON notifications (org_id, id);
CREATE INDEX notifications_undelivered ON notifications (org_id, id) WHERE status <> 'delivered';
CREATE INDEX notifications_endpoint ON notifications (endpoint_id, id);
CREATE INDEX notifications_due ON notifications (endpoint_id, next_attempt_at) WHERE status = 'pending';
CREATE INDEX notifications_pings ON notifications (endpoint_id, next_attempt_at) WHERE status = 'pending' AND event = 'ping';
CREATE INDEX notifications_held ON notifications (endpoint_id) WHERE lease_until IS NOT NULL;
CREATE INDEX notifications_sweep ON notifications (created_at);

-- ---------------------------------------------------------------------------------------------------------------------
-- Usage of removed runs

-- Sums over removed runs, by the hour of their acceptance and their target. took counts the finished runs by the
-- bucket of their duration: its subscripts are the results of took_bucket, from the lowest to the highest; a null
-- element means 0.
CREATE TABLE past_usage (
  org_id         text COLLATE "C" NOT NULL,
  hour           timestamptz NOT NULL,
  target_id      text COLLATE "C" NOT NULL, -- an agent or a template
  runs           bigint NOT NULL,
  completed      bigint NOT NULL,
  failed         bigint NOT NULL,
  cancelled      bigint NOT NULL,
  timed_out      bigint NOT NULL,
  input_tokens   bigint NOT NULL,
  output_tokens  bigint NOT NULL,
  cost_micros    bigint NOT NULL,
  took           int[] NOT NULL,
  sandbox_ms     bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (org_id, hour, target_id)
) WITH (fillfactor = 70);
CREATE INDEX past_usage_sweep ON past_usage (hour);

-- The same sums by day, and by key and automation as well; an empty id means none.
CREATE TABLE past_usage_by (
  org_id         text COLLATE "C" NOT NULL,
  day            date NOT NULL,
  target_id      text COLLATE "C" NOT NULL,
  key_id         text COLLATE "C" NOT NULL,
  automation_id  text COLLATE "C" NOT NULL,
  runs           bigint NOT NULL,
  completed      bigint NOT NULL,
  failed         bigint NOT NULL,
  cancelled      bigint NOT NULL,
  timed_out      bigint NOT NULL,
  input_tokens   bigint NOT NULL,
  output_tokens  bigint NOT NULL,
  cost_micros    bigint NOT NULL,
  sandbox_ms     bigint NOT NULL,
  PRIMARY KEY (org_id, day, target_id, key_id, automation_id)
) WITH (fillfactor = 70);
CREATE INDEX past_usage_by_sweep ON past_usage_by (day);

-- The newest removed run of each automation.
CREATE TABLE past_automations (
  org_id         text COLLATE "C" NOT NULL,
  automation_id  text COLLATE "C" NOT NULL,
  target_id      text COLLATE "C" NOT NULL,
  trigger_type   text NOT NULL,
  run_id         text COLLATE "C" NOT NULL,
  status         text NOT NULL,
  created_at     timestamptz NOT NULL,
  finished_at    timestamptz,
  PRIMARY KEY (org_id, automation_id)
) WITH (fillfactor = 70);
CREATE INDEX past_automations_sweep ON past_automations (created_at);

-- ---------------------------------------------------------------------------------------------------------------------
-- Budgets

-- A budget counts the runs of an organization, an agent, a key or an automation. The limit is the column most, in
-- millionths of the currency, tokens, runs or milliseconds. subjects holds the subject and the keys that it replaced.
CREATE TABLE budgets (
  id          text COLLATE "C" PRIMARY KEY,
  org_id      text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  scope       text NOT NULL CHECK (scope IN ('organization', 'agent', 'key', 'automation')),
  subject_id  text,
  subjects    text[] NOT NULL DEFAULT '{}',
  metric      text NOT NULL CHECK (metric IN ('costMicros', 'tokens', 'runs', 'sandboxSeconds')),
  period      text NOT NULL CHECK (period IN ('day', 'month')),
  most        bigint NOT NULL CHECK (most >= 0),
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((scope = 'organization') = (subject_id IS NULL))
);
CREATE UNIQUE INDEX budgets_one ON budgets (org_id, scope, (coalesce(subject_id, '')), metric, period);

-- The use of a budget in a period, and the amount reserved for calls under way. The first use of a period adds the row.
CREATE TABLE budget_counts (
  budget_id  text COLLATE "C" NOT NULL REFERENCES budgets (id) ON DELETE CASCADE,
  starts_on  date NOT NULL,
  org_id     text COLLATE "C" NOT NULL,
  used       bigint NOT NULL,
  reserved   bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (budget_id, starts_on)
) WITH (fillfactor = 50);

-- The reservations of a call under way: one row for each budget of its run, under the fence of the attempt.
CREATE TABLE budget_holds (
  id          text COLLATE "C" NOT NULL,
  budget_id   text COLLATE "C" NOT NULL REFERENCES budgets (id) ON DELETE CASCADE,
  starts_on   date NOT NULL,
  org_id      text COLLATE "C" NOT NULL,
  run_id      text COLLATE "C" NOT NULL,
  fence       bigint NOT NULL,
  amount      bigint NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (id, budget_id)
);
CREATE INDEX budget_holds_budget ON budget_holds (budget_id);
CREATE INDEX budget_holds_age ON budget_holds (created_at);

-- ---------------------------------------------------------------------------------------------------------------------
-- Limits

-- The requests of each demo client address in the last minute. allowed is the outcome of the last write, which the
-- counting statement returns.
CREATE TABLE demo_clients (
  address  text PRIMARY KEY,
  hits     timestamptz[] NOT NULL,
  allowed  boolean NOT NULL DEFAULT true
);
CREATE INDEX demo_clients_hits ON demo_clients ((hits[array_upper(hits, 1)]));

-- Token buckets of the user and system tiers. Ingresses lease tokens in chunks, so all ingresses share one limit.
-- Unlogged: a crash may refill a bucket.
CREATE UNLOGGED TABLE rate_buckets (
  name       text COLLATE "C" PRIMARY KEY,
  tokens     double precision NOT NULL,
  granted    int NOT NULL, -- the result of the last lease
  filled_at  timestamptz NOT NULL
) WITH (fillfactor = 70);

-- ---------------------------------------------------------------------------------------------------------------------
-- Sealed values
--
-- sealed_values finds the sealed values of the database by the keys of SECRETS_KEY that they need. These functions
-- return the ids of the keys that seal a value, sorted and joined by commas, and '' if nothing is sealed. A value
-- without the form of a sealed value has the key "malformed". Indexes are built on the functions, so they qualify
-- every name that they use.

CREATE FUNCTION sealed_text_keys(sealed text[]) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(string_agg(DISTINCT k.key, ',' ORDER BY k.key), '') FROM (
    SELECT coalesce(substring(s.value FROM '^v1\.([0-9a-f]{8})\.'), 'malformed') COLLATE "C" AS key
    FROM unnest($1) AS s (value) WHERE s.value <> '') k
$$;

-- Each piece of a sealed chunk names its key, and all pieces have the same key. Only the beginning of the value is
-- read.
CREATE FUNCTION sealed_bytes_keys(sealed bytea) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN substring($1 FOR 1) = '\x01' THEN encode(substring($1 FROM 2 FOR 4), 'hex') ELSE 'malformed' END
$$;

-- Header values and signing secrets of tools.
CREATE FUNCTION sealed_tools_keys(tools jsonb) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT public.sealed_text_keys(ARRAY(
    SELECT v #>> '{}' FROM jsonb_path_query($1, '$.httpRequest.endpoints[*].headers.*') v
    UNION ALL SELECT v #>> '{}' FROM jsonb_path_query($1, '$.httpRequest.endpoints[*].signingSecret') v
    UNION ALL SELECT v #>> '{}' FROM jsonb_path_query($1, '$.mcp.servers[*].headers.*') v))
$$;

CREATE FUNCTION sealed_config_keys(config json) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT public.sealed_tools_keys(($1 -> 'tools')::jsonb)
$$;

CREATE INDEX agents_sealed_tools ON agents ((sealed_tools_keys(tools) COLLATE "C"), org_id, id) WHERE sealed_tools_keys(tools) <> '';
CREATE INDEX agents_sealed_widget ON agents ((sealed_text_keys(ARRAY[widget_secret]) COLLATE "C"), org_id, id) WHERE widget_secret <> '';
CREATE INDEX agent_configs_sealed ON agent_configs ((sealed_config_keys(config) COLLATE "C"), org_id, target_id, version)
  WHERE org_id IS NOT NULL AND sealed_config_keys(config) <> '';
CREATE INDEX hooks_sealed ON hooks ((sealed_text_keys(ARRAY[secret, previous_secret]) COLLATE "C"), org_id, id) WHERE secret <> '';
CREATE INDEX notification_endpoints_sealed
  ON notification_endpoints ((sealed_text_keys(ARRAY[secret, previous_secret]) COLLATE "C"), org_id, id) WHERE secret <> '';
CREATE INDEX deliveries_sealed ON deliveries ((sealed_bytes_keys(body) COLLATE "C"), org_id, hook_id, delivery_id)
  WHERE sealed AND body IS NOT NULL;
CREATE INDEX blob_chunks_sealed ON blob_chunks ((sealed_bytes_keys(data) COLLATE "C"), org_id, hash, n) WHERE sealed > 0;

-- ---------------------------------------------------------------------------------------------------------------------
-- Row-level security: docs/security.md, "Tenancy"

-- The organizations that the transaction acts for. The result is null, which equals nothing, if the
-- transaction has named none.
CREATE FUNCTION parley_organizations() RETURNS text[]
  LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT string_to_array(nullif(current_setting('parley.organizations', true), ''), ',') $$;

-- The user that the transaction acts for, whose own API keys belong to no organization.
CREATE FUNCTION parley_user() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT nullif(current_setting('parley.user', true), '')
$$;

-- The policy "system" lets parley_system, and the owner of the tables as its member, read and write all rows. The
-- policy "tenant" lets the service read and write the rows of the organizations that the transaction has named.
--
-- The subquery runs once a statement, not once a row. The collation does not change what is equal. It keeps the planner
-- from scanning all rows of an organization along an index on org_id where a statement names rows by other columns:
-- plans are made while tables are small, when such a scan looks cheap.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
  named CONSTANT text := 'ANY ((SELECT parley_organizations())::text[])';
BEGIN
  FOREACH name IN ARRAY ARRAY[
    'agents', 'sessions', 'runs', 'steps', 'run_events', 'run_attempts', 'heard', 'open_runs', 'waiting_lanes',
    'effects', 'sources', 'run_sources', 'blobs', 'blob_chunks', 'files',
    'documents', 'run_documents', 'document_chunks', 'document_vectors', 'knowledge_terms', 'indexed_documents',
    'hooks', 'hook_senders', 'deliveries', 'collecting', 'notification_endpoints', 'notifications',
    'past_usage', 'past_usage_by', 'past_automations', 'budgets', 'budget_counts', 'budget_holds'
  ] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = %s) WITH CHECK (org_id = %s)', name, named, named);
  END LOOP;

  -- Statements always find the rows of these tables by organization, so the policy uses the usual
  -- collation.
  FOREACH name IN ARRAY ARRAY['organizations', 'memberships', 'invitations', 'api_keys'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %1$I TO parley_app USING (%2$s = %3$s) WITH CHECK (%2$s = %3$s)',
      name, CASE name WHEN 'organizations' THEN 'id' ELSE 'org_id' END, named);
  END LOOP;

  -- Everybody may read the configuration of a template.
  ALTER TABLE agent_configs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
  CREATE POLICY system ON agent_configs TO parley_system USING (true) WITH CHECK (true);
  EXECUTE format('CREATE POLICY tenant ON agent_configs TO parley_app USING (org_id IS NULL OR org_id COLLATE "default" = %s) WITH CHECK (org_id = %s)',
    named, named);
END $$;
-- +goose StatementEnd
CREATE POLICY owner ON api_keys TO parley_app
  USING (org_id IS NULL AND user_id = (SELECT parley_user())) WITH CHECK (org_id IS NULL AND user_id = (SELECT parley_user()));

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights

-- The rights of the service. It has no right to function_files or to goose's table.
GRANT SELECT, INSERT, UPDATE, DELETE ON organizations, users, identities, memberships, invitations, login_sessions, login_links, api_keys,
  agents, sessions, runs, steps, run_events, run_attempts, heard, open_runs, effects, sources, run_sources, blobs, blob_chunks, files,
  documents, run_documents, document_chunks, document_vectors, knowledge_terms, indexed_documents,
  hooks, hook_senders, deliveries, collecting, notification_endpoints, notifications,
  budgets, budget_counts, budget_holds, demo_clients, rate_buckets TO parley_app;
GRANT SELECT, INSERT, UPDATE ON past_usage, past_usage_by, past_automations TO parley_app; -- prune_past deletes
GRANT SELECT, INSERT ON agent_configs, waiting_lanes TO parley_app;
GRANT SELECT ON templates TO parley_app;
GRANT USAGE ON SEQUENCE sessions_ref_seq, deliveries_ref TO parley_app;

-- The functions that read across organizations.
GRANT SELECT ON organizations, users, memberships, login_sessions, agents, runs, agent_configs, sources, blobs, blob_chunks,
  knowledge_terms, collecting TO parley_system;
GRANT SELECT, DELETE ON invitations, document_chunks, document_vectors, hooks, hook_senders TO parley_system;
GRANT SELECT, UPDATE ON api_keys, open_runs, documents TO parley_system;
GRANT SELECT, UPDATE, DELETE ON deliveries, notification_endpoints, notifications, past_usage, past_usage_by, past_automations,
  budget_counts, budget_holds TO parley_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON waiting_lanes TO parley_system;
GRANT UPDATE (config) ON agent_configs TO parley_system; -- reseal_config

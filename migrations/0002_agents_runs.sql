-- +goose Up
CREATE TABLE agents (
  id               text COLLATE "C" PRIMARY KEY,
  org_id           text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  name             text NOT NULL,
  description      text NOT NULL,
  system_prompt    text NOT NULL,
  model            text NOT NULL,
  tools            jsonb NOT NULL,
  allowed_callers  text[] NOT NULL,
  widget           jsonb NOT NULL,
  version          int NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  deleted_at       timestamptz
);
CREATE INDEX agents_org ON agents (org_id, id) WHERE deleted_at IS NULL;

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

-- What a run needs of its agent or template, unchanged per version: a run uses the version of
-- the moment it was accepted, and workers may cache these rows for ever.
CREATE TABLE agent_configs (
  target_id  text COLLATE "C" NOT NULL, -- agents.id or templates.id
  version    int NOT NULL,
  config     json NOT NULL,
  PRIMARY KEY (target_id, version)
);

-- A session groups the runs of one target and principal. last_seq numbers them; accepting a run
-- locks this row, so that the numbers are in commit order.
CREATE TABLE sessions (
  ref         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key         bytea NOT NULL UNIQUE, -- a hash over organization, target, principal and session_id
  org_id      text COLLATE "C" NOT NULL,
  target_id   text COLLATE "C" NOT NULL,
  principal   text COLLATE "C" NOT NULL,
  session_id  text COLLATE "C" NOT NULL, -- the client's name of it
  last_seq    int NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What was asked, and once it has ended, what came of it. While a run is open its state is in
-- open_runs. A row is written twice, and nothing that the second write touches is indexed, so that
-- finishing a run updates no index.
CREATE TABLE runs (
  id               text COLLATE "C" PRIMARY KEY,
  org_id           text COLLATE "C" NOT NULL,
  agent_id         text COLLATE "C",
  template_id      text COLLATE "C",
  config_version   int NOT NULL,
  session_ref      bigint NOT NULL,
  seq              int NOT NULL,
  session_id       text NOT NULL,
  principal        text NOT NULL,
  caller_kind      text NOT NULL,
  trigger_type     text NOT NULL,
  automation_id    text,
  idempotency_key  text,
  idempotency_hash bytea, -- over organization, endpoint, scope and key
  fingerprint      bytea, -- over what was asked, to tell a retry from a reuse of the key
  input            json NOT NULL,
  retention        int NOT NULL, -- seconds after the end; 0: kept until its session is erased
  sweep_after      timestamptz,  -- no use looking before: created_at + retention
  created_at       timestamptz NOT NULL,
  -- from here on: null until the run has ended
  status           text,
  result           text, -- the run object as rendered at the end; every replay is these bytes
  answer           text,
  attempts         int,
  input_tokens     bigint,
  output_tokens    bigint,
  cost_micros      bigint,
  finished_at      timestamptz,
  expires_at       timestamptz,
  CHECK ((agent_id IS NULL) <> (template_id IS NULL))
) WITH (fillfactor = 60);
CREATE UNIQUE INDEX runs_idempotency ON runs (idempotency_hash) WHERE idempotency_hash IS NOT NULL;
CREATE UNIQUE INDEX runs_session ON runs (session_ref, seq);
CREATE INDEX runs_org ON runs (org_id, id);
CREATE INDEX runs_sweep ON runs (sweep_after) WHERE sweep_after IS NOT NULL;

-- Where a run that has not ended stands. The row lives from acceptance to the end, so the table
-- stays as small as the work in hand however many runs there were.
CREATE TABLE open_runs (
  run_id            text COLLATE "C" PRIMARY KEY,
  org_id            text COLLATE "C" NOT NULL,
  agent_id          text COLLATE "C",
  session_ref       bigint NOT NULL,
  seq               int NOT NULL,
  lane              text NOT NULL,
  status            text NOT NULL CHECK (status IN ('queued', 'running', 'requires_action')),
  -- dispatched: rung on the bus or running, so counted in its organization's window.
  dispatched        boolean NOT NULL,
  dispatch_no       int NOT NULL,
  dispatched_at     timestamptz,
  next_dispatch_at  timestamptz, -- dispatched and queued: ring again then
  not_before        timestamptz, -- a retry's backoff
  dedupe            text NOT NULL,
  reply_to          text NOT NULL,
  traceparent       text NOT NULL,
  fence             bigint NOT NULL DEFAULT 0, -- raised by each claim and by whatever takes a run from its worker
  lease_until       timestamptz,
  attempts          int NOT NULL DEFAULT 0,
  deaths            int NOT NULL DEFAULT 0, -- attempts that ended in a worker's death
  last_error        json,                   -- why the last attempt was put back
  started_at        timestamptz,
  deadline          timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
CREATE UNIQUE INDEX open_runs_session ON open_runs (session_ref, seq);
-- The guard of "one at a time per session", whatever the statements do.
CREATE UNIQUE INDEX open_runs_one_per_session ON open_runs (session_ref) WHERE status IN ('running', 'requires_action');
CREATE INDEX open_runs_dispatched ON open_runs (org_id) WHERE dispatched;
CREATE INDEX open_runs_waiting ON open_runs (org_id, run_id) WHERE status = 'queued' AND NOT dispatched;
CREATE INDEX open_runs_agent ON open_runs (agent_id);

-- The journal of a run: each model turn and tool call that was completed, in order.
CREATE TABLE steps (
  run_id      text COLLATE "C" NOT NULL,
  n           int NOT NULL,
  fence       bigint NOT NULL,
  step        json NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (run_id, n)
);
-- +goose Down
DROP TABLE steps, open_runs, runs, sessions, agent_configs, templates, agents;

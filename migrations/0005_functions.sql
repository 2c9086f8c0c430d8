-- +goose Up
-- What the service does as parley_app, within the policies of the file before: its rights, and its statements as
-- functions. Nothing here waits for a table that is in use.

-- Names the organizations that parley_organizations() gives, until the end of the transaction. What holds a comma is no id, and must not be read as several.
-- Batches of one organization, the most frequent ones, are named without a query.
-- +goose StatementBegin
CREATE FUNCTION parley_act_for(orgs text[]) RETURNS text
  LANGUAGE plpgsql AS $$
BEGIN
  IF orgs[1] = ALL (orgs) AND strpos(orgs[1], ',') = 0 THEN
    RETURN set_config('parley.organizations', orgs[1], true);
  END IF;
  RETURN set_config('parley.organizations',
    coalesce((SELECT string_agg(DISTINCT o, ',') FROM unnest(orgs) AS o WHERE strpos(o, ',') = 0), ''), true);
END $$;
-- +goose StatementEnd

-- What the attempts at a run have told so far, in chunks: one line per event, "type data", numbered from first_n.
CREATE TABLE run_events (
  run_id   text COLLATE "C" NOT NULL,
  org_id   text COLLATE "C" NOT NULL,
  fence    bigint NOT NULL,
  first_n  int NOT NULL,
  last_n   int NOT NULL,
  events   text NOT NULL,
  PRIMARY KEY (run_id, fence, first_n)
);

ALTER TABLE run_events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON run_events TO parley_system USING (true) WITH CHECK (true);
CREATE POLICY tenant ON run_events TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[]))
  WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]));

GRANT SELECT, INSERT, UPDATE, DELETE ON agents, sessions, runs, open_runs, steps, run_events, demo_clients, rate_buckets,
  organizations, users, memberships, login_sessions, login_links, api_keys TO parley_app;
GRANT SELECT, INSERT ON agent_configs TO parley_app;
GRANT SELECT ON templates TO parley_app;
GRANT SELECT, UPDATE ON open_runs TO parley_system;
GRANT SELECT ON runs, agents TO parley_system;

-- Statements of whole batches, each of which first names the organizations of its own rows: one round trip, and one
-- commit when it is sent by itself. They name them by an assignment, which costs less than
-- a statement. A later migration that changes one makes a function of a new name and leaves this one to the binaries
-- that still call it.

-- Inserts runs: ids, organizations, agents, templates, callers' kinds, principals, session ids, session keys, trigger
-- types, automation ids, keys, key hashes, fingerprints, inputs, lanes, dedupes, reply subjects, traceparents, retentions,
-- deadlines; the window; the time until the first suspicion.
--
-- The joins below are on single columns, and both checks hide from the planner that they are anti joins:
-- otherwise it expects one row and compares each row of the batch with each other, or reads all open runs.
-- +goose StatementBegin
CREATE FUNCTION accept_runs(text[], text[], text[], text[], text[], text[], text[], bytea[], text[], text[], text[],
    bytea[], bytea[], text[], text[], text[], text[], text[], int[], int[], bigint, interval)
  RETURNS TABLE (run_id text, created_at timestamptz, dispatched boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
BEGIN
  RETURN QUERY
  WITH batch AS MATERIALIZED (
    SELECT id, org_id, nullif(agent_id, '') AS agent_id, nullif(template_id, '') AS template_id, caller_kind, principal,
      session_id, session_key, trigger_type, nullif(automation_id, '') AS automation_id, nullif(key, '') AS key,
      nullif(key_hash, '') AS key_hash, nullif(fingerprint, '') AS fingerprint, input, lane, dedupe, reply_to, traceparent,
      retention, deadline, n
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::text[], $10::text[],
      $11::text[], $12::bytea[], $13::bytea[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::int[], $20::int[])
      WITH ORDINALITY AS u (id, org_id, agent_id, template_id, caller_kind, principal, session_id, session_key, trigger_type,
      automation_id, key, key_hash, fingerprint, input, lane, dedupe, reply_to, traceparent, retention, deadline, n)
  ), eligible AS MATERIALIZED (
    SELECT b.*, coalesce(a.version, t.version) AS config_version
    FROM batch b
    LEFT JOIN agents a ON a.id = b.agent_id AND a.org_id = b.org_id AND a.deleted_at IS NULL AND b.caller_kind = ANY (a.allowed_callers)
    LEFT JOIN templates t ON t.id = b.template_id
    WHERE coalesce(a.version, t.version) IS NOT NULL
      AND (NOT EXISTS (SELECT 1 FROM runs k WHERE k.idempotency_hash = b.key_hash)) IS NOT FALSE
  ), session AS (
    INSERT INTO sessions AS s (key, org_id, target_id, principal, session_id, last_seq)
    SELECT session_key, min(org_id), min(coalesce(agent_id, template_id)), min(principal), min(session_id), count(*)
    FROM eligible GROUP BY session_key ORDER BY session_key
    ON CONFLICT (key) DO UPDATE SET last_seq = s.last_seq + excluded.last_seq
    RETURNING s.key, s.ref, s.last_seq
  ), used AS MATERIALIZED (
    SELECT org_id, (SELECT count(*) FROM (SELECT 1 FROM open_runs d WHERE d.org_id = o.org_id AND d.dispatched LIMIT $21) counted) AS places
    FROM (SELECT DISTINCT org_id FROM eligible) o
  ), numbered AS (
    SELECT e.*, s.ref, row_number() OVER in_order AS turn,
      s.last_seq - count(*) OVER (PARTITION BY e.session_key) + row_number() OVER in_order AS seq
    FROM eligible e JOIN session s ON s.key = e.session_key
    WINDOW in_order AS (PARTITION BY e.session_key ORDER BY e.n)
  ), headed AS MATERIALIZED (
    SELECT *, turn = 1 AND (seq = 1 OR
      (SELECT p.seq FROM open_runs p WHERE p.session_ref = numbered.ref LIMIT 1) IS NULL) AS head
    FROM numbered
  ), placed AS MATERIALIZED (
    SELECT h.*, h.head AND u.places + count(*) FILTER (WHERE h.head) OVER (PARTITION BY h.org_id ORDER BY h.n) <= $21 AS dispatch
    FROM headed h JOIN used u USING (org_id)
  ), inserted AS (
    INSERT INTO runs (id, org_id, agent_id, template_id, config_version, session_ref, seq, session_id, principal, caller_kind,
      trigger_type, automation_id, idempotency_key, idempotency_hash, fingerprint, input, retention, sweep_after, created_at)
    SELECT id, org_id, agent_id, template_id, config_version, ref, seq, session_id, principal, caller_kind, trigger_type,
      automation_id, key, key_hash, fingerprint, input::json, retention,
      CASE WHEN retention > 0 THEN now() + make_interval(secs => retention) END, date_trunc('milliseconds', clock_timestamp())
    FROM placed ORDER BY key_hash, id
    ON CONFLICT (idempotency_hash) WHERE idempotency_hash IS NOT NULL DO NOTHING
    RETURNING id, created_at
  ), opened AS (
    INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dispatched_at,
      next_dispatch_at, dedupe, reply_to, traceparent, deadline)
    SELECT i.id, p.org_id, p.agent_id, p.ref, p.seq, p.lane, 'queued', p.dispatch, p.dispatch::int,
      CASE WHEN p.dispatch THEN clock_timestamp() END, CASE WHEN p.dispatch THEN clock_timestamp() + $22::interval END,
      p.dedupe, p.reply_to, p.traceparent, i.created_at + make_interval(secs => p.deadline)
    FROM inserted i JOIN placed p ON p.id = i.id
  )
  SELECT i.id AS run_id, i.created_at, p.dispatch AS dispatched FROM inserted i JOIN placed p ON p.id = i.id;
END $$;
-- +goose StatementEnd

-- Ends runs: ids, fences, statuses, results, answers, attempts, input tokens, output tokens, costs, ends, expiries;
-- organizations, starts, fences and numbers of the last events; then the events that no checkpoint holds: first and last
-- numbers and text, or nulls when no run has any. A checkpoint that was not answered may have written the same.
--
-- The open row goes and the run's row gets its ending, or neither: the fence decides.
-- +goose StatementBegin
CREATE FUNCTION finish_runs(text[], bigint[], text[], text[], text[], int[], bigint[], bigint[], bigint[], timestamptz[], timestamptz[],
    text[], timestamptz[], bigint[], int[], int[], int[], text[])
  RETURNS TABLE (run_id text, org_id text, place boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($12);
BEGIN
  IF $18 IS NOT NULL THEN
    WITH open AS MATERIALIZED (
      SELECT o.run_id, o.org_id, o.fence FROM open_runs o WHERE o.run_id = ANY ($1) ORDER BY o.run_id FOR UPDATE
    )
    INSERT INTO run_events (run_id, org_id, fence, first_n, last_n, events)
    SELECT o.run_id, o.org_id, o.fence, u.first_n, u.last_n, u.events
    FROM open o JOIN unnest($1, $2, $16, $17, $18) AS u (run_id, fence, first_n, last_n, events) ON u.run_id = o.run_id
    WHERE (u.fence = o.fence) IS TRUE AND u.first_n > 0 ORDER BY o.run_id
    ON CONFLICT (run_id, fence, first_n) DO UPDATE SET last_n = excluded.last_n, events = excluded.events;
  END IF;
  RETURN QUERY
  WITH ending AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::int[], $7::bigint[], $8::bigint[], $9::bigint[],
      $10::timestamptz[], $11::timestamptz[], $13::timestamptz[], $14::bigint[], $15::int[])
      AS u (id, fence, status, result, answer, attempts, input_tokens, output_tokens, cost_micros, finished_at, expires_at,
        started_at, end_fence, end_n)
  ), mine AS (
    SELECT o.run_id FROM open_runs o JOIN ending e ON e.id = o.run_id AND e.fence = o.fence ORDER BY o.run_id FOR UPDATE OF o
  ), closed AS (
    DELETE FROM open_runs o USING ending e, mine
    WHERE o.run_id = mine.run_id AND e.id = o.run_id AND o.fence = e.fence
    RETURNING o.run_id, o.org_id, o.dispatched
  ), saved AS (
    UPDATE runs r SET status = e.status, result = e.result, answer = nullif(e.answer, ''), attempts = e.attempts,
      input_tokens = e.input_tokens, output_tokens = e.output_tokens, cost_micros = e.cost_micros,
      finished_at = e.finished_at, expires_at = e.expires_at, started_at = e.started_at, end_fence = e.end_fence, end_n = e.end_n
    FROM ending e JOIN closed c ON c.run_id = e.id WHERE r.id = e.id
  )
  SELECT run_id, org_id, dispatched AND EXISTS (SELECT 1 FROM open_runs w
    WHERE w.org_id = closed.org_id AND w.status = 'queued' AND NOT w.dispatched) AS place FROM closed;
END $$;
-- +goose StatementEnd

-- Gives the places that runs left to waiting runs: organizations, places; the time until the first suspicion; the window.
--
-- What a finish leaves goes to its organization's oldest waiting runs, up to the window. Every organization
-- with work thus has equally many jobs in the stream, which carries them out in turn: the same shares as
-- serving the organizations round robin, without a queue per organization.
-- +goose StatementBegin
CREATE FUNCTION hand_over(text[], int[], interval, bigint)
  RETURNS TABLE (run_id text, org_id text, lane text, dedupe text, dispatch_no int, reply_to text, traceparent text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  WITH freed AS (
    SELECT org_id, greatest(0, least(places, $4 - (SELECT count(*) FROM open_runs d WHERE d.org_id = f.org_id AND d.dispatched))) AS places
    FROM unnest($1::text[], $2::int[]) AS f (org_id, places)
  ), next AS (
    SELECT w.run_id FROM freed f CROSS JOIN LATERAL (
      SELECT o.run_id FROM open_runs o
      WHERE o.org_id = f.org_id AND o.status = 'queued' AND NOT o.dispatched
        AND (o.not_before IS NULL OR o.not_before <= clock_timestamp())
        AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref AND p.seq < o.seq)
      ORDER BY o.run_id LIMIT f.places FOR UPDATE OF o SKIP LOCKED) w
  )
  UPDATE open_runs o SET dispatched = true, dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
    next_dispatch_at = clock_timestamp() + $3::interval
  FROM next WHERE o.run_id = next.run_id
  RETURNING o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent;
END $$;
-- +goose StatementEnd

-- Renews leases: runs, fences, the lease, organizations.
-- +goose StatementBegin
CREATE FUNCTION extend_leases(text[], bigint[], interval, text[])
  RETURNS TABLE (run_id text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($4);
BEGIN
  RETURN QUERY
  WITH mine AS (
    SELECT o.run_id FROM open_runs o JOIN unnest($1, $2) h (run_id, fence) USING (run_id, fence)
    WHERE o.status = 'running' ORDER BY o.run_id FOR UPDATE OF o
  )
  UPDATE open_runs o SET lease_until = clock_timestamp() + $3 FROM mine WHERE o.run_id = mine.run_id
  RETURNING o.run_id;
END $$;
-- +goose StatementEnd

-- Appends steps to a run's journal and counts them: run, fence, numbers, steps, organization.
-- FOR SHARE: a claim by another worker waits until these steps are visible to it, or comes first and wins.
-- +goose StatementBegin
CREATE FUNCTION append_steps(text, bigint, int[], text[], text) RETURNS bigint
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for(ARRAY[$5]);
  written bigint;
BEGIN
  WITH mine AS (
    SELECT run_id FROM open_runs WHERE run_id = $1 AND fence = $2 AND status = 'running' FOR SHARE
  )
  INSERT INTO steps (run_id, org_id, n, fence, step)
  SELECT mine.run_id, $5, u.n, $2, u.step::json FROM mine, unnest($3, $4) AS u (n, step);
  GET DIAGNOSTICS written = ROW_COUNT;
  RETURN written;
END $$;
-- +goose StatementEnd

-- Adds to the event logs of held runs and tells which those are: runs, organizations, fences, first and last numbers,
-- events. A chunk that was written before, with fewer events, grows: its writer was not answered. FOR SHARE: as in
-- append_steps.
-- +goose StatementBegin
CREATE FUNCTION save_run_events(text[], text[], bigint[], int[], int[], text[])
  RETURNS TABLE (run_id text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($2);
BEGIN
  RETURN QUERY
  WITH chunk AS MATERIALIZED (
    SELECT DISTINCT ON (run_id, fence, first_n) *
    FROM unnest($1, $3, $4, $5, $6) AS u (run_id, fence, first_n, last_n, events)
    ORDER BY run_id, fence, first_n, last_n DESC
  ), open AS MATERIALIZED (
    SELECT o.run_id, o.org_id, o.fence, o.status FROM open_runs o WHERE o.run_id = ANY ($1) ORDER BY o.run_id FOR SHARE
  ), mine AS MATERIALIZED (
    SELECT o.run_id, o.org_id, c.fence, c.first_n, c.last_n, c.events FROM open o JOIN chunk c ON c.run_id = o.run_id
    WHERE (o.fence = c.fence) IS TRUE AND o.status = 'running'
  ), written AS (
    INSERT INTO run_events AS v (run_id, org_id, fence, first_n, last_n, events)
    SELECT run_id, org_id, fence, first_n, last_n, events FROM mine WHERE first_n > 0 ORDER BY run_id, first_n
    ON CONFLICT (run_id, fence, first_n) DO UPDATE SET last_n = excluded.last_n, events = excluded.events
      WHERE v.last_n < excluded.last_n
  )
  SELECT DISTINCT m.run_id FROM mine m;
END $$;
-- +goose StatementEnd

-- The live runs that hold idempotency keys: organizations, hashes.
-- +goose StatementBegin
CREATE FUNCTION runs_by_key(text[], bytea[])
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
    r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
    r.status IS NOT NULL AS ended, r.result, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
    coalesce(o.started_at, r.started_at) AS started_at, r.finished_at, r.expires_at
  FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id
  WHERE r.idempotency_hash = ANY ($2) AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp());
END $$;
-- +goose StatementEnd

-- Those of the runs that have ended: organizations, runs.
-- +goose StatementBegin
CREATE FUNCTION ended_runs(text[], text[])
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
    r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
    r.status IS NOT NULL AS ended, r.result, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
    coalesce(o.started_at, r.started_at) AS started_at, r.finished_at, r.expires_at
  FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id
  WHERE r.id = ANY ($2) AND r.status IS NOT NULL;
END $$;
-- +goose StatementEnd

-- Event logs of runs: organizations, runs, and what the readers have: fences and numbers. Runs that a binary of before
-- this file has ended have told of their answer, if any, and their end; if an attempt before theirs has told something
-- (during an upgrade), their end comes behind that.
-- +goose StatementBegin
CREATE FUNCTION run_event_logs(text[], text[], bigint[], int[])
  RETURNS TABLE (id text, org_id text, agent_id text, template_id text, session_id text, principal text, trigger_type text,
    automation_id text, idempotency_key text, idempotency_hash bytea, fingerprint bytea, status text, ended boolean, result text,
    attempts int, created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz,
    place bigint, end_fence bigint, end_n int, fence bigint, first_ns int[], last_ns int[], chunks text[])
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($1);
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
    r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
    r.status IS NOT NULL AS ended, r.result, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
    coalesce(o.started_at, r.started_at,
      CASE WHEN r.end_fence IS NULL AND r.result IS NOT NULL
        THEN (r.result::json->>'startedAt')::timestamptz END) AS started_at, r.finished_at, r.expires_at,
    w.place, CASE WHEN r.status IS NULL THEN 0 ELSE coalesce(r.end_fence, f.fence + 1, 1) END AS end_fence,
    CASE WHEN r.status IS NULL THEN 0 ELSE coalesce(r.end_n, CASE WHEN f.fence IS NOT NULL THEN 1 WHEN r.answer IS NULL THEN 2 ELSE 3 END) END AS end_n,
    coalesce(f.fence, 0) AS fence, l.first_ns, l.last_ns, l.chunks
  FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS w (org_id, run_id, after_fence, after_n, place)
  JOIN runs r ON r.id = w.run_id AND r.org_id = w.org_id
  LEFT JOIN open_runs o ON o.run_id = r.id
  LEFT JOIN LATERAL (SELECT e.fence FROM run_events e WHERE e.run_id = r.id ORDER BY e.run_id DESC, e.fence DESC LIMIT 1) f ON true
  CROSS JOIN LATERAL (
    SELECT array_agg(c.first_n) AS first_ns, array_agg(c.last_n) AS last_ns, array_agg(c.events) AS chunks FROM (
      SELECT e.first_n, e.last_n, e.events FROM run_events e
      WHERE e.run_id = r.id AND e.fence = f.fence AND (e.fence, e.last_n) > (w.after_fence, w.after_n) ORDER BY e.first_n) c) l
  WHERE (r.expires_at IS NULL OR r.expires_at > clock_timestamp()) AND (r.status IS NULL OR r.result IS NOT NULL);
END $$;
-- +goose StatementEnd

-- What precedes an organization, or looks for work in all of them. These functions tell of runs and change nothing but
-- claims; whoever acts on what the others find does so as parley_app, for the organizations that they name, and looks again.

-- Starts those of the runs that may start: a doorbell names a run, and only its row knows whose it is.
--
-- A run whose lease has run out is taken over, but not within a lease of the server's start: see lost_runs.
--
-- A claim does not lock session rows. Acceptance numbers a session's runs in commit order, so whoever
-- sees a run sees all before it; a run whose predecessor ends meanwhile is rung for by that finish;
-- and the index open_runs_one_per_session refuses what would remain.
-- +goose StatementBegin
CREATE FUNCTION claim_runs(text[], interval)
  RETURNS TABLE (run_id text, org_id text, agent_id text, template_id text, config_version int, session_ref bigint, seq int,
    session_id text, trigger_type text, automation_id text, idempotency_key text, input json, caller_kind text, retention int,
    fence bigint, attempts int, deaths int, last_error json, created_at timestamptz, started_at timestamptz, deadline timestamptz,
    db_now timestamptz, caller_allowed boolean)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH want AS (
    SELECT run_id FROM open_runs WHERE run_id = ANY ($1) ORDER BY run_id FOR UPDATE
  ), claimed AS (
    UPDATE open_runs o SET status = 'running', dispatched = true, fence = o.fence + 1, attempts = o.attempts + 1,
      deaths = o.deaths + (o.status = 'running')::int, lease_until = clock_timestamp() + $2::interval,
      next_dispatch_at = NULL, not_before = NULL, started_at = coalesce(o.started_at, clock_timestamp())
    FROM want
    WHERE o.run_id = want.run_id AND o.deadline > clock_timestamp()
      AND (o.status = 'queued' AND (o.not_before IS NULL OR o.not_before <= clock_timestamp())
        OR o.status = 'running' AND o.lease_until < clock_timestamp()
          AND pg_postmaster_start_time() < clock_timestamp() - $2::interval)
      AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref AND p.seq < o.seq)
    RETURNING o.*
  )
  SELECT c.run_id, c.org_id, r.agent_id, r.template_id, r.config_version, c.session_ref, c.seq, r.session_id, r.trigger_type,
    r.automation_id, r.idempotency_key, r.input, r.caller_kind, r.retention, c.fence, c.attempts, c.deaths, c.last_error,
    r.created_at, c.started_at, c.deadline, clock_timestamp() AS db_now,
    r.agent_id IS NULL OR coalesce(a.deleted_at IS NULL AND r.caller_kind = ANY (a.allowed_callers), false) AS caller_allowed
  FROM claimed c JOIN runs r ON r.id = c.run_id LEFT JOIN agents a ON a.id = c.agent_id AND a.org_id = c.org_id;
END $$;
-- +goose StatementEnd

-- Tells runs that have ended from those that must wait, and gives the places that the waiting ones hold in their
-- organization's window back: their doorbells are about to be acknowledged.
-- +goose StatementBegin
CREATE FUNCTION void_claims(text[])
  RETURNS TABLE (id text, ended boolean, result text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH undone AS (
    UPDATE open_runs SET dispatched = false, next_dispatch_at = NULL
    WHERE run_id IN (SELECT run_id FROM open_runs WHERE run_id = ANY ($1) AND status = 'queued' AND dispatched ORDER BY run_id FOR UPDATE)
      AND status = 'queued'
  )
  SELECT r.id, r.status IS NOT NULL AS ended, r.result FROM runs r WHERE r.id = ANY ($1);
END $$;
-- +goose StatementEnd

-- Open runs whose deadline has passed.
-- +goose StatementBegin
CREATE FUNCTION overdue_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id FROM open_runs o
  WHERE o.deadline <= clock_timestamp() AND o.status <> 'requires_action' ORDER BY o.run_id LIMIT $1;
END $$;
-- +goose StatementEnd

-- Queued runs that have cost so many workers.
-- +goose StatementBegin
CREATE FUNCTION poison_runs(int, bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id FROM open_runs o
  WHERE o.status = 'queued' AND o.deaths >= $1 ORDER BY o.run_id LIMIT $2;
END $$;
-- +goose StatementEnd

-- Running runs whose lease has run out. For one lease after a start of the server there are none: its outage kept
-- living workers from renewing theirs.
-- +goose StatementBegin
CREATE FUNCTION lost_runs(bigint, interval)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id FROM open_runs o
  WHERE o.dispatched AND o.status = 'running' AND o.lease_until < clock_timestamp()
    AND pg_postmaster_start_time() < clock_timestamp() - $2
  ORDER BY o.run_id LIMIT $1;
END $$;
-- +goose StatementEnd

-- Dispatched, unclaimed runs whose time to be rung for again has come.
-- +goose StatementBegin
CREATE FUNCTION unclaimed_runs(bigint)
  RETURNS TABLE (run_id text, org_id text, lane text, dedupe text, dispatch_no int, reply_to text, traceparent text, dispatched_at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent, o.dispatched_at FROM open_runs o
  WHERE o.dispatched AND o.status = 'queued' AND o.next_dispatch_at <= clock_timestamp() ORDER BY o.run_id LIMIT $1;
END $$;
-- +goose StatementEnd

-- Runs whose retention may be over.
-- now(), not clock_timestamp(): a bound that may change from row to row is none that an index can use.
-- +goose StatementBegin
CREATE FUNCTION expired_runs(bigint)
  RETURNS TABLE (run_id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT r.id, r.org_id FROM runs r WHERE r.sweep_after <= now() ORDER BY r.sweep_after LIMIT $1;
END $$;
-- +goose StatementEnd

-- Organizations with waiting runs.
-- The recursion walks from one organization to the next along the index, however many runs each has waiting.
-- +goose StatementBegin
CREATE FUNCTION waiting_organizations()
  RETURNS TABLE (org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE org AS (
    (SELECT org_id FROM open_runs WHERE status = 'queued' AND NOT dispatched ORDER BY org_id LIMIT 1)
    UNION ALL
    SELECT (SELECT o.org_id FROM open_runs o
      WHERE o.status = 'queued' AND NOT o.dispatched AND o.org_id > org.org_id ORDER BY o.org_id LIMIT 1)
    FROM org WHERE org.org_id IS NOT NULL
  )
  SELECT org_id FROM org WHERE org_id IS NOT NULL;
END $$;
-- +goose StatementEnd

-- Organizations with dispatched runs, found in the same way.
-- +goose StatementBegin
CREATE FUNCTION dispatched_organizations()
  RETURNS TABLE (org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE org AS (
    (SELECT org_id FROM open_runs WHERE dispatched ORDER BY org_id LIMIT 1)
    UNION ALL
    SELECT (SELECT o.org_id FROM open_runs o WHERE o.dispatched AND o.org_id > org.org_id ORDER BY o.org_id LIMIT 1)
    FROM org WHERE org.org_id IS NOT NULL
  )
  SELECT org_id FROM org WHERE org_id IS NOT NULL;
END $$;
-- +goose StatementEnd

-- How many runs wait to be started, up to so many.
-- +goose StatementBegin
CREATE FUNCTION count_backlog(bigint) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RETURN (SELECT count(*) FROM (SELECT 1 FROM open_runs WHERE status = 'queued' LIMIT $1) counted);
END $$;
-- +goose StatementEnd

-- For as long as this migration takes: who is to own a function must be allowed to make it.
GRANT CREATE ON SCHEMA public TO parley_system;
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY[
    'claim_runs(text[], interval)', 'void_claims(text[])', 'overdue_runs(bigint)', 'poison_runs(int, bigint)',
    'lost_runs(bigint, interval)', 'unclaimed_runs(bigint)', 'expired_runs(bigint)', 'waiting_organizations()',
    'dispatched_organizations()', 'count_backlog(bigint)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION claim_runs, void_claims, overdue_runs, poison_runs, lost_runs, unclaimed_runs, expired_runs, waiting_organizations,
  dispatched_organizations, count_backlog,
  accept_runs, finish_runs, hand_over, extend_leases, append_steps, save_run_events, runs_by_key, ended_runs, run_event_logs, parley_act_for;
DROP TABLE run_events;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM parley_app, parley_system;

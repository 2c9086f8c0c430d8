-- +goose NO TRANSACTION
-- +goose Up
-- Batches that skip locked rows. A statement serves runs of many organizations, and a row that another transaction has locked must not
-- delay the others. Each function returns such a run as locked; its caller tries again. The functions have new names: binaries of the
-- release before call the old ones and take a missing run for a lost one.

-- claim_runs of 0005_functions.sql. A locked run is returned with locked set and without a claim.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION claim_runs_2(text[], interval)
  RETURNS TABLE (run_id text, org_id text, agent_id text, template_id text, config_version int, session_ref bigint, seq int,
    session_id text, trigger_type text, automation_id text, idempotency_key text, input json, caller_kind text, retention int,
    fence bigint, attempts int, deaths int, last_error json, created_at timestamptz, started_at timestamptz, deadline timestamptz,
    db_now timestamptz, caller_allowed boolean, locked boolean)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH want AS MATERIALIZED (
    SELECT run_id FROM open_runs WHERE run_id = ANY ($1) ORDER BY run_id FOR UPDATE SKIP LOCKED
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
    r.agent_id IS NULL OR coalesce(a.deleted_at IS NULL AND r.caller_kind = ANY (a.allowed_callers), false) AS caller_allowed, false AS locked
  FROM claimed c JOIN runs r ON r.id = c.run_id LEFT JOIN agents a ON a.id = c.agent_id AND a.org_id = c.org_id
  UNION ALL
  SELECT o.run_id, o.org_id, NULL, NULL, 0, o.session_ref, o.seq, '', '', NULL, NULL, NULL, '', 0, o.fence, o.attempts, o.deaths, NULL,
    clock_timestamp(), clock_timestamp(), o.deadline, clock_timestamp(), false, true
  FROM open_runs o WHERE o.run_id = ANY ($1) AND NOT EXISTS (SELECT FROM want w WHERE w.run_id = o.run_id);
END $$;
-- +goose StatementEnd

-- void_claims of 0005_functions.sql. A locked run keeps its place; the sweeper rings for it again.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION void_claims_2(text[])
  RETURNS TABLE (id text, ended boolean, result text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH undone AS (
    UPDATE open_runs SET dispatched = false, next_dispatch_at = NULL
    WHERE run_id IN (SELECT run_id FROM open_runs WHERE run_id = ANY ($1) AND status = 'queued' AND dispatched
        ORDER BY run_id FOR UPDATE SKIP LOCKED)
      AND status = 'queued'
  )
  SELECT r.id, r.status IS NOT NULL AS ended, r.result FROM runs r WHERE r.id = ANY ($1);
END $$;
-- +goose StatementEnd

-- extend_leases of 0005_functions.sql: runs, fences, the lease, organizations. A run that is not returned was taken from its worker.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION extend_leases_2(text[], bigint[], interval, text[])
  RETURNS TABLE (run_id text, locked boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for($4);
BEGIN
  RETURN QUERY
  WITH mine AS MATERIALIZED (
    SELECT o.run_id FROM open_runs o JOIN unnest($1, $2) h (run_id, fence) USING (run_id, fence)
    WHERE o.status = 'running' ORDER BY o.run_id FOR UPDATE OF o SKIP LOCKED
  ), extended AS (
    UPDATE open_runs o SET lease_until = clock_timestamp() + $3 FROM mine WHERE o.run_id = mine.run_id
    RETURNING o.run_id
  )
  SELECT e.run_id, false FROM extended e
  UNION ALL
  SELECT o.run_id, true FROM open_runs o JOIN unnest($1, $2) h (run_id, fence) USING (run_id, fence)
  WHERE o.status = 'running' AND NOT EXISTS (SELECT FROM mine m WHERE m.run_id = o.run_id);
END $$;
-- +goose StatementEnd

-- save_run_events of 0005_functions.sql: runs, organizations, fences, first and last numbers, events. It returns the runs that are still
-- held, and the locked ones, of which nothing was written.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION save_run_events_2(text[], text[], bigint[], int[], int[], text[])
  RETURNS TABLE (run_id text, locked boolean)
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
    SELECT o.run_id, o.org_id, o.fence, o.status FROM open_runs o WHERE o.run_id = ANY ($1) ORDER BY o.run_id FOR SHARE SKIP LOCKED
  ), mine AS MATERIALIZED (
    SELECT o.run_id, o.org_id, c.fence, c.first_n, c.last_n, c.events FROM open o JOIN chunk c ON c.run_id = o.run_id
    WHERE (o.fence = c.fence) IS TRUE AND o.status = 'running'
  ), written AS (
    INSERT INTO run_events AS v (run_id, org_id, fence, first_n, last_n, events)
    SELECT run_id, org_id, fence, first_n, last_n, events FROM mine WHERE first_n > 0 ORDER BY run_id, first_n
    ON CONFLICT (run_id, fence, first_n) DO UPDATE SET last_n = excluded.last_n, events = excluded.events
      WHERE v.last_n < excluded.last_n
  )
  SELECT DISTINCT m.run_id, false FROM mine m
  UNION ALL
  SELECT l.run_id, true FROM open_runs l WHERE l.run_id = ANY ($1) AND NOT EXISTS (SELECT FROM open o WHERE o.run_id = l.run_id);
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['claim_runs_2(text[], interval)', 'void_claims_2(text[])']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS claim_runs_2, void_claims_2, extend_leases_2, save_run_events_2;

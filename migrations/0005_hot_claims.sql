-- +goose NO TRANSACTION
-- +goose Up
-- No index of open_runs depends on status, so a claim changes no indexed column and adds no index entry. The new
-- predicates follow from those of the old ones, so the statements of the previous release can use the new indexes.
--
-- open_runs_one_per_session is dropped without a replacement. A run starts only if no open run of its session has a
-- lower number, numbers are unique and in commit order, and a finished run never opens again.

-- An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index.
-- +goose StatementBegin
DO $$
DECLARE
  invalid regclass;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  FOR invalid IN SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = 'open_runs'::regclass AND NOT i.indisvalid LOOP
    EXECUTE format('DROP INDEX %s', invalid);
  END LOOP;
END $$;
-- +goose StatementEnd

-- A parked run is delayed until its decision. That keeps it out of the indexes of runs that wait for a slot.
-- +goose StatementBegin
DO $$
BEGIN
  LOOP
    UPDATE open_runs SET not_before = 'infinity' WHERE run_id = ANY (ARRAY(
      SELECT o.run_id FROM open_runs o WHERE o.status = 'requires_action' AND o.not_before IS NULL
      ORDER BY o.run_id LIMIT 1000 FOR UPDATE SKIP LOCKED));
    EXIT WHEN NOT FOUND;
    COMMIT;
  END LOOP;
END $$;
-- +goose StatementEnd

-- Counts the waiting and delayed runs of an organization, such as those of its hooks. It is created before
-- open_runs_ready: of indexes that look equally cheap, as they do while the table is small, the planner uses the last
-- one created, and dispatch needs open_runs_ready.
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_undispatched ON open_runs (org_id, run_id) WHERE NOT dispatched;
-- A run waits if it lacks only a free slot. When the time not_before comes, the sweeper sets the
-- column to null.
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_ready ON open_runs (org_id, lane, run_id) WHERE NOT dispatched AND not_before IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_ready_sessions ON open_runs (org_id, lane, session_ref, seq)
  WHERE NOT dispatched AND not_before IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_requires_action ON open_runs (org_id) WHERE parked_at IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS open_runs_one_per_session;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_waiting;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_waiting_lane;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_waiting_lane_sessions;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_parked;
DROP INDEX CONCURRENTLY IF EXISTS open_runs_agent;

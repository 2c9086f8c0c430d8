-- +goose NO TRANSACTION
-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  -- The number of the only run of its session for which a run waits. 0: it waits for none. null: it waits for all earlier runs.
  ALTER TABLE open_runs ADD COLUMN IF NOT EXISTS waits_for int;
END $$;
-- +goose StatementEnd

-- An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  IF EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname = 'open_runs_ready_branches' AND NOT i.indisvalid) THEN
    DROP INDEX open_runs_ready_branches;
  END IF;
END $$;
-- +goose StatementEnd

-- The waiting runs that need not be the first ones of their sessions. Like the other indexes of open_runs, it contains no
-- column that a claim changes.
CREATE INDEX CONCURRENTLY IF NOT EXISTS open_runs_ready_branches ON open_runs (org_id, lane, run_id)
  WHERE NOT dispatched AND not_before IS NULL AND waits_for IS NOT NULL;

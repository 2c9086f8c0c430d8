-- +goose NO TRANSACTION
-- +goose Up
-- The log of a hook has a few entries of deliveries without a valid signature.

-- The previous release reads such entries like any others. It writes none.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE deliveries DROP CONSTRAINT IF EXISTS deliveries_status_check;
  ALTER TABLE deliveries ADD CONSTRAINT deliveries_status_check
    CHECK (status IN ('accepted', 'coalesced', 'filtered', 'answered', 'refused', 'rejected')) NOT VALID;
END $$;
-- +goose StatementEnd
ALTER TABLE deliveries VALIDATE CONSTRAINT deliveries_status_check;

-- An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  IF EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = to_regclass('deliveries_rejected') AND NOT i.indisvalid) THEN
    DROP INDEX deliveries_rejected;
  END IF;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_rejected ON deliveries (hook_id, ref) WHERE status = 'rejected';

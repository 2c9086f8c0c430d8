-- +goose NO TRANSACTION
-- +goose Up
-- Sessions by the name that their client chose, for GET /api/sessions?id=. A session that a run has by itself is called auto_ and the end of
-- the run's id: it is found by its run, and such runs write no entry here.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('sessions_named') AND NOT indisvalid) THEN
    DROP INDEX sessions_named; -- what an interrupted migration left
  END IF;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS sessions_named ON sessions (org_id, session_id, principal)
  WHERE NOT (session_id LIKE 'auto\_%' AND length(session_id) = 31);
-- +goose Down
DROP INDEX IF EXISTS sessions_named;

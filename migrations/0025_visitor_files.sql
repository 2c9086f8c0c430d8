-- +goose NO TRANSACTION
-- +goose Up
-- The agent for whose widget a visitor uploaded or attached a file; null for the files of all other callers. It is
-- used to limit the files of an organization's visitors. An upload can be attached only to messages to this agent.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE files ADD COLUMN IF NOT EXISTS widget_agent text;
END $$;
-- +goose StatementEnd

-- An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index.
-- +goose StatementBegin
DO $$
DECLARE
  invalid regclass;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  FOR invalid IN SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = 'files'::regclass AND NOT i.indisvalid LOOP
    EXECUTE format('DROP INDEX %s', invalid);
  END LOOP;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS files_visitors ON files (org_id) WHERE widget_agent IS NOT NULL;

-- +goose NO TRANSACTION
-- +goose Up
-- Uploads and attachments are files. An upload has no run yet: run_id is empty, principal and session_name say who may
-- attach it and in which session (empty: any), and it is removed at sweep_after. An attachment is linked to its run
-- before the run is accepted; it is removed at sweep_after if that run does not exist by then. prepared is the media type
-- of the image to which the content was converted, or 'text'; text_id is the source with the text that was read from it.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE files
    ADD COLUMN IF NOT EXISTS principal text,
    ADD COLUMN IF NOT EXISTS session_name text,
    ADD COLUMN IF NOT EXISTS sweep_after timestamptz,
    ADD COLUMN IF NOT EXISTS prepared text,
    ADD COLUMN IF NOT EXISTS text_id text;
  GRANT SELECT ON files TO parley_system;
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
CREATE INDEX CONCURRENTLY IF NOT EXISTS files_sweep ON files (sweep_after) WHERE sweep_after IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS files_uploads ON files (org_id, principal, session_name) WHERE run_id = '';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS files_uploads;
DROP INDEX CONCURRENTLY IF EXISTS files_sweep;
REVOKE SELECT ON files FROM parley_system;
ALTER TABLE files DROP COLUMN text_id, DROP COLUMN prepared, DROP COLUMN sweep_after, DROP COLUMN session_name, DROP COLUMN principal;

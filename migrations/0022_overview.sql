-- +goose NO TRANSACTION
-- +goose Up
-- The overview of an organization finds failed documents and enabled widgets along these indexes.

-- An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  FOREACH name IN ARRAY ARRAY['documents_failed', 'agents_embedded'] LOOP
    IF EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = to_regclass(name) AND NOT i.indisvalid) THEN
      EXECUTE format('DROP INDEX %I', name);
    END IF;
  END LOOP;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS documents_failed ON documents (org_id, id)
  WHERE status = 'failed' AND error_code IS DISTINCT FROM 'deleting';
-- The condition differs from that of the search for origins, which must use its own index.
CREATE INDEX CONCURRENTLY IF NOT EXISTS agents_embedded ON agents (org_id)
  WHERE deleted_at IS NULL AND widget ->> 'enabled' = 'true';

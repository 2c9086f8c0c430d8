-- +goose NO TRANSACTION
-- +goose Up
-- Documents of organizations, and which runs were given text of them. As in 0009_files.sql, while binaries of the release
-- before work: new tables, functions changed in place only where they then do more of the same, and everything can be repeated.

-- How a chunk of a content is kept: as it is (0), or sealed. Then each 131072 bytes of it are sealed by themselves, which makes
-- them so many bytes longer. Of each chunk, for processes that seal and others that do not may write the same content.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE blob_chunks ADD COLUMN IF NOT EXISTS sealed smallint NOT NULL DEFAULT 0;
  ALTER TABLE blob_chunks DROP CONSTRAINT IF EXISTS blob_chunks_data_check, DROP CONSTRAINT IF EXISTS blob_chunks_size;
  ALTER TABLE blob_chunks ADD CONSTRAINT blob_chunks_size CHECK (length(data) BETWEEN 1 AND 1048576 + 8 * sealed AND sealed >= 0) NOT VALID;
END $$;
-- +goose StatementEnd
ALTER TABLE blob_chunks VALIDATE CONSTRAINT blob_chunks_size; -- by itself, for it looks at all of them

-- fence, attempts, deaths, lease_until and dispatch_no are as those of open_runs: a worker that has a document in hand writes
-- under the fence of its claim, and whatever changes what is to be read raises it. weight is what shorter ones are read before: what
-- reading one costs besides its bytes is in it, and one that is to be fetched is of a usual length.
CREATE TABLE IF NOT EXISTS documents (
  id             text COLLATE "C" PRIMARY KEY,
  org_id         text COLLATE "C" NOT NULL,
  name           text NOT NULL,
  mime_type      text NOT NULL,
  bytes          bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0), -- of the content; 0 while it is to be fetched
  hash           bytea CHECK (length(hash) = 32),              -- null: it is to be fetched
  url            text COLLATE "C" CHECK (octet_length(url) <= 2048),
  status         text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'processing', 'ready', 'failed')),
  error_code     text, -- of a failed one, and of a queued one why the last attempt was put back
  error_message  text,
  pages          int,  -- null: not known yet, or the format has none
  pages_done     int NOT NULL DEFAULT 0,
  chunks         int NOT NULL DEFAULT 0,
  language       text NOT NULL DEFAULT '',
  title          text NOT NULL DEFAULT '',
  notes          jsonb NOT NULL DEFAULT '[]',
  metadata       jsonb NOT NULL DEFAULT '{}',
  model          text, -- that made its vectors; null: it has none
  fence          bigint NOT NULL DEFAULT 0,
  attempts       int NOT NULL DEFAULT 0,
  deaths         int NOT NULL DEFAULT 0, -- attempts that ended in a worker's death
  lease_until    timestamptz,
  not_before     timestamptz NOT NULL DEFAULT clock_timestamp(), -- since when it waits
  claimed_at     timestamptz,                                    -- the last time
  deadline       timestamptz,                                    -- an hour after its first claim; null: nobody has claimed it
  dispatch_no    int NOT NULL DEFAULT 1,
  created_by     text COLLATE "C" NOT NULL,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  weight         bigint NOT NULL GENERATED ALWAYS AS (CASE WHEN hash IS NULL THEN 1048576 ELSE greatest(bytes, 65536) END) STORED,
  CONSTRAINT documents_have_contents CHECK (url IS NOT NULL OR hash IS NOT NULL)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS documents_org ON documents (org_id, id) INCLUDE (bytes); -- lists, and what all of them take
CREATE INDEX IF NOT EXISTS documents_blob ON documents (org_id, hash) INCLUDE (bytes); -- what documents take of an organization's contents
CREATE UNIQUE INDEX IF NOT EXISTS documents_content ON documents (org_id, hash) WHERE url IS NULL;
CREATE UNIQUE INDEX IF NOT EXISTS documents_url ON documents (org_id, url) WHERE url IS NOT NULL;
CREATE INDEX IF NOT EXISTS documents_waiting ON documents (org_id, not_before, id) WHERE status = 'queued';
CREATE INDEX IF NOT EXISTS documents_short ON documents (org_id, weight, not_before, id) WHERE status = 'queued';
CREATE INDEX IF NOT EXISTS documents_late ON documents (deadline, not_before) WHERE status = 'queued';
CREATE INDEX IF NOT EXISTS documents_claimed ON documents (claimed_at);
CREATE INDEX IF NOT EXISTS documents_held ON documents (org_id) WHERE status = 'processing';
CREATE INDEX IF NOT EXISTS documents_lost ON documents (lease_until) WHERE status = 'processing';

-- Runs that were given text of a document: what has to go with it.
CREATE TABLE IF NOT EXISTS run_documents (
  run_id       text COLLATE "C" NOT NULL,
  org_id       text COLLATE "C" NOT NULL,
  document_id  text COLLATE "C" NOT NULL,
  PRIMARY KEY (run_id, document_id)
);
CREATE INDEX IF NOT EXISTS run_documents_document ON run_documents (org_id, document_id, run_id);

-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['documents', 'run_documents'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]))', name);
  END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE, DELETE ON documents, run_documents TO parley_app;
GRANT SELECT ON documents TO parley_system;

-- As in 0009_files.sql, where documents link to contents, too.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION remove_unlinked_blobs(text[], bytea[]) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE
  orgs text[];
  hashes bytea[];
  larger bool[];
BEGIN
  IF coalesce(cardinality($2), 0) = 0 THEN
    RETURN;
  END IF;
  PERFORM FROM blobs b WHERE (b.org_id, b.hash) IN (SELECT * FROM unnest($1, $2)) ORDER BY b.org_id, b.hash FOR UPDATE;
  SELECT array_agg(o.org_id), array_agg(o.hash), array_agg(o.until - o.bytes >= 268435456) INTO orgs, hashes, larger
  FROM (SELECT b.org_id, b.hash, b.bytes, sum(b.bytes) OVER (ORDER BY b.org_id, b.hash) AS until FROM blobs b
    WHERE (b.org_id, b.hash) IN (SELECT * FROM unnest($1, $2))
      AND NOT EXISTS (SELECT 1 FROM files f WHERE f.org_id = b.org_id AND f.hash = b.hash)
      AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.org_id = b.org_id AND d.hash = b.hash)) o;
  DELETE FROM blob_chunks c USING unnest(orgs, hashes, larger) AS u (org_id, hash, later)
    WHERE c.org_id = u.org_id AND c.hash = u.hash AND NOT u.later;
  DELETE FROM blobs b USING unnest(orgs, hashes, larger) AS u (org_id, hash, later)
    WHERE b.org_id = u.org_id AND b.hash = u.hash AND NOT u.later;
  UPDATE blobs b SET sweep_after = now() FROM unnest(orgs, hashes, larger) AS u (org_id, hash, later)
    WHERE b.org_id = u.org_id AND b.hash = u.hash AND u.later;
END $$;
-- +goose StatementEnd

-- As in 0009_files.sql, and which documents the runs were given text of.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION steps_take_effects() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  runs text[] := ARRAY(SELECT DISTINCT g.run_id FROM gone g);
  orgs text[];
  hashes bytea[];
BEGIN
  DELETE FROM effects WHERE run_id = ANY (runs);
  DELETE FROM run_sources WHERE run_id = ANY (runs);
  DELETE FROM run_documents WHERE run_id = ANY (runs);
  WITH made AS (DELETE FROM files WHERE run_id = ANY (runs) RETURNING org_id, hash)
  SELECT array_agg(m.org_id), array_agg(m.hash) INTO orgs, hashes FROM made m WHERE m.hash IS NOT NULL;
  PERFORM remove_unlinked_blobs(orgs, hashes);
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- parley_holdings of 0007_accounts.sql, where an organization holds something that has documents.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION parley_holdings_2(member text)
RETURNS TABLE (id text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT m.org_id, m.role FROM memberships m WHERE m.user_id = member AND (
    EXISTS (SELECT 1 FROM memberships o WHERE o.org_id = m.org_id AND o.user_id <> member)
    OR EXISTS (SELECT 1 FROM agents a WHERE a.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM api_keys k WHERE k.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM invitations i WHERE i.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM documents d WHERE d.org_id = m.org_id)
    OR EXISTS (SELECT 1 FROM runs r WHERE r.org_id = m.org_id))
$$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['parley_holdings_2(text)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION steps_take_effects() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  runs text[] := ARRAY(SELECT DISTINCT g.run_id FROM gone g);
  orgs text[];
  hashes bytea[];
BEGIN
  DELETE FROM effects WHERE run_id = ANY (runs);
  DELETE FROM run_sources WHERE run_id = ANY (runs);
  WITH made AS (DELETE FROM files WHERE run_id = ANY (runs) RETURNING org_id, hash)
  SELECT array_agg(m.org_id), array_agg(m.hash) INTO orgs, hashes FROM made m WHERE m.hash IS NOT NULL;
  PERFORM remove_unlinked_blobs(orgs, hashes);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION remove_unlinked_blobs(text[], bytea[]) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE
  orgs text[];
  hashes bytea[];
  larger bool[];
BEGIN
  IF coalesce(cardinality($2), 0) = 0 THEN
    RETURN;
  END IF;
  PERFORM FROM blobs b WHERE (b.org_id, b.hash) IN (SELECT * FROM unnest($1, $2)) ORDER BY b.org_id, b.hash FOR UPDATE;
  SELECT array_agg(o.org_id), array_agg(o.hash), array_agg(o.until - o.bytes >= 268435456) INTO orgs, hashes, larger
  FROM (SELECT b.org_id, b.hash, b.bytes, sum(b.bytes) OVER (ORDER BY b.org_id, b.hash) AS until FROM blobs b
    WHERE (b.org_id, b.hash) IN (SELECT * FROM unnest($1, $2))
      AND NOT EXISTS (SELECT 1 FROM files f WHERE f.org_id = b.org_id AND f.hash = b.hash)) o;
  DELETE FROM blob_chunks c USING unnest(orgs, hashes, larger) AS u (org_id, hash, later)
    WHERE c.org_id = u.org_id AND c.hash = u.hash AND NOT u.later;
  DELETE FROM blobs b USING unnest(orgs, hashes, larger) AS u (org_id, hash, later)
    WHERE b.org_id = u.org_id AND b.hash = u.hash AND NOT u.later;
  UPDATE blobs b SET sweep_after = now() FROM unnest(orgs, hashes, larger) AS u (org_id, hash, later)
    WHERE b.org_id = u.org_id AND b.hash = u.hash AND u.later;
END $$;
-- +goose StatementEnd
DROP FUNCTION IF EXISTS parley_holdings_2;
DROP TABLE IF EXISTS run_documents, documents;
-- What is sealed is nothing to who does not know of it.
DELETE FROM files f WHERE EXISTS (SELECT 1 FROM blob_chunks c WHERE c.org_id = f.org_id AND c.hash = f.hash AND c.sealed > 0);
DELETE FROM blob_chunks WHERE sealed > 0;
ALTER TABLE blob_chunks DROP CONSTRAINT IF EXISTS blob_chunks_size;
ALTER TABLE blob_chunks DROP COLUMN IF EXISTS sealed, ADD CONSTRAINT blob_chunks_data_check CHECK (length(data) BETWEEN 1 AND 1048576);

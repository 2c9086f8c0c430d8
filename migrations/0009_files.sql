-- +goose NO TRANSACTION
-- +goose Up
-- Files that tool calls make, and their contents. As in 0008_effects.sql, while binaries of the release before work: new
-- tables, one function changed in place, and everything can be repeated.

-- Contents by their SHA-256: once an organization, whatever links to them. Chunks are written before the first link is, in
-- transactions of their own, so a content is whole when it has all of its chunks, and not before.
CREATE TABLE IF NOT EXISTS blobs (
  org_id       text COLLATE "C" NOT NULL,
  hash         bytea NOT NULL CHECK (length(hash) = 32),
  bytes        bigint NOT NULL CHECK (bytes >= 0),
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  sweep_after  timestamptz NOT NULL DEFAULT clock_timestamp() + interval '1 hour', -- no use looking before whether anything links to it
  PRIMARY KEY (org_id, hash) INCLUDE (bytes) -- which makes the sum of an organization's bytes one walk over an index
);
CREATE INDEX IF NOT EXISTS blobs_sweep ON blobs (sweep_after);

-- Neither compressed, which most contents are already, nor ever changed.
CREATE TABLE IF NOT EXISTS blob_chunks (
  org_id  text COLLATE "C" NOT NULL,
  hash    bytea NOT NULL,
  n       int NOT NULL CHECK (n >= 0),
  data    bytea NOT NULL CHECK (length(data) BETWEEN 1 AND 1048576), -- 1048576 but for the last one
  PRIMARY KEY (org_id, hash, n)
);
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE blob_chunks ALTER data SET STORAGE EXTERNAL;
END $$;
-- +goose StatementEnd

-- What a call has left in its session's folder. A later file hides those of its name before it, until its own run goes.
CREATE TABLE IF NOT EXISTS files (
  id           text COLLATE "C" PRIMARY KEY,
  org_id       text COLLATE "C" NOT NULL,
  run_id       text COLLATE "C" NOT NULL,
  call_id      text COLLATE "C" NOT NULL,
  session_ref  bigint NOT NULL,
  seq          bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  name         text COLLATE "C" NOT NULL,
  mime_type    text NOT NULL,
  bytes        bigint NOT NULL,
  hash         bytea, -- null: the call has removed what had this name
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT files_call UNIQUE (run_id, call_id, name)
);
CREATE INDEX IF NOT EXISTS files_newest ON files (session_ref, name, seq DESC);
CREATE INDEX IF NOT EXISTS files_blob ON files (org_id, hash); -- all of an organization's, which are counted in it

-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['blobs', 'blob_chunks', 'files'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]))', name);
  END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE, DELETE ON blobs, blob_chunks, files TO parley_app;
GRANT SELECT ON blobs TO parley_system;

-- Removes those contents that nothing links to: organizations, hashes. They are locked first, by a statement before the one
-- that looks for links: a link to one of them is there to be seen, or waits for the lock and then finds the content gone. Of
-- very much not all goes at once, for no statement may take long: the rest is due to be swept. A function of the schema,
-- so that binaries that know of fewer links than the schema has remove nothing that is linked to.
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

-- As in 0008_effects.sql, and what the runs have made. The trigger that calls it stays as it is.
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

-- Contents of which it is time to look whether anything links to them. now(): see expired_runs.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION blobs_to_sweep(bigint)
  RETURNS TABLE (org_id text, hash bytea)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT b.org_id, b.hash FROM blobs b WHERE b.sweep_after <= now() ORDER BY b.sweep_after LIMIT $1;
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['blobs_to_sweep(bigint)']::regprocedure[] LOOP
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
BEGIN
  DELETE FROM effects WHERE run_id = ANY (ARRAY(SELECT DISTINCT g.run_id FROM gone g));
  DELETE FROM run_sources WHERE run_id = ANY (ARRAY(SELECT DISTINCT g.run_id FROM gone g));
  RETURN NULL;
END $$;
-- +goose StatementEnd
DROP FUNCTION IF EXISTS blobs_to_sweep, remove_unlinked_blobs;
DROP TABLE IF EXISTS files, blob_chunks, blobs;

-- +goose NO TRANSACTION
-- +goose Up
-- What timelines of runs, usage and lists of automations are read from. As in 0010_documents.sql, while binaries of the release
-- before work: a new table, an index built beside them, functions changed in place only where they then do more of the same, and
-- everything can be repeated.

-- Of runs that needed more than one attempt: each attempt that did not end the run, and each that came after another. And
-- when a run waited for a person: open_runs tells it as long as it does, this afterwards. Of other runs there are no rows here. A row
-- is known by the fence under which the attempt wrote, or the run waited. Binaries of before this file write none.
CREATE TABLE IF NOT EXISTS run_attempts (
  run_id    text COLLATE "C" NOT NULL,
  fence     bigint NOT NULL,
  org_id    text COLLATE "C" NOT NULL,
  kind      text NOT NULL CHECK (kind IN ('attempt', 'wait')),
  attempt   int NOT NULL, -- its number; of a wait that of the attempt before it
  began_at  timestamptz NOT NULL,
  ended_at  timestamptz, -- null: with the run, or it is not known yet
  status    text CHECK (status IN ('completed', 'failed', 'lost')),
  code      text,        -- of the error that ended it; of a wait the decision
  message   text,        -- why it ended
  call_id   text,        -- of a wait: the call that it was about
  PRIMARY KEY (run_id, fence)
);

ALTER TABLE run_attempts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS system ON run_attempts;
DROP POLICY IF EXISTS tenant ON run_attempts;
CREATE POLICY system ON run_attempts TO parley_system USING (true) WITH CHECK (true);
CREATE POLICY tenant ON run_attempts TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[]))
  WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON run_attempts TO parley_app;

-- Binaries of before this file erase and remove runs without knowing of the table. What they erase is found by the runs' steps, as in
-- 0010_documents.sql; what they remove by the runs themselves, for an attempt may end before its first step.
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
  DELETE FROM run_attempts WHERE run_id = ANY (runs);
  WITH made AS (DELETE FROM files WHERE run_id = ANY (runs) RETURNING org_id, hash)
  SELECT array_agg(m.org_id), array_agg(m.hash) INTO orgs, hashes FROM made m WHERE m.hash IS NOT NULL;
  PERFORM remove_unlinked_blobs(orgs, hashes);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_take_attempts() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM run_attempts WHERE run_id = ANY (ARRAY(SELECT g.id FROM gone g));
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS runs_take_attempts ON runs;
  CREATE TRIGGER runs_take_attempts AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION runs_take_attempts();
END $$;
-- +goose StatementEnd

-- The runs of each automation, in their order. Chats, which are none, are not in it, and ending a run changes nothing of it.
-- What an interrupted migration left goes.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('runs_automation') AND NOT indisvalid) THEN
    DROP INDEX runs_automation;
  END IF;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_automation ON runs (org_id, automation_id COLLATE "C", id) WHERE automation_id IS NOT NULL;
-- +goose Down
DROP INDEX IF EXISTS runs_automation;
DROP TRIGGER IF EXISTS runs_take_attempts ON runs;
DROP FUNCTION IF EXISTS runs_take_attempts;
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
DROP TABLE IF EXISTS run_attempts;

-- +goose NO TRANSACTION
-- +goose Up
-- What was heard of spoken answers that were interrupted. As in 0013_traces.sql, while binaries of the release before work: a new
-- table, functions changed in place only where they then do more of the same, and everything can be repeated.

-- Of runs whose answer was spoken and not heard to its end: as far as it was heard. Of other runs there are no rows here.
CREATE TABLE IF NOT EXISTS heard (
  run_id      text COLLATE "C" PRIMARY KEY,
  org_id      text COLLATE "C" NOT NULL,
  text        text NOT NULL, -- of the answer; empty: nothing of it
  audio_ms    bigint NOT NULL CHECK (audio_ms >= 0),
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE heard ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS system ON heard;
DROP POLICY IF EXISTS tenant ON heard;
CREATE POLICY system ON heard TO parley_system USING (true) WITH CHECK (true);
CREATE POLICY tenant ON heard TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[]))
  WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON heard TO parley_app;

-- Binaries of before this file erase and remove runs without knowing of the table. What they remove is found by the runs. What they
-- erase by the runs, too: a run that was cancelled while it spoke may have no steps. Erasing is all that sets a run's input anew.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_take_attempts() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  runs text[] := ARRAY(SELECT g.id FROM gone g);
BEGIN
  DELETE FROM run_attempts WHERE run_id = ANY (runs);
  DELETE FROM heard WHERE run_id = ANY (runs);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION run_erased() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM heard WHERE run_id = NEW.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS run_erased ON runs;
  CREATE TRIGGER run_erased AFTER UPDATE OF input ON runs
    FOR EACH ROW WHEN (NEW.status IS NOT NULL AND NEW.result IS NULL) EXECUTE FUNCTION run_erased();
END $$;
-- +goose StatementEnd
-- +goose Down
DROP TRIGGER IF EXISTS run_erased ON runs;
DROP FUNCTION IF EXISTS run_erased;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_take_attempts() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM run_attempts WHERE run_id = ANY (ARRAY(SELECT g.id FROM gone g));
  RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TABLE IF EXISTS heard;

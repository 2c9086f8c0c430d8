-- +goose NO TRANSACTION
-- +goose Up
-- The words of finished runs, for the search of the list of runs. A worker adds the words after the finish. The
-- finish itself adds only a row to unindexed_runs, which has no index.

-- +goose StatementBegin
DO $$
DECLARE
  name text;
  named CONSTANT text := 'ANY ((SELECT parley_organizations())::text[])';
BEGIN
  IF to_regclass('run_terms') IS NOT NULL THEN
    RETURN; -- this file was interrupted after this statement
  END IF;

  -- The lexemes of a finished run's question and answer. Each begins with a prefix that stands for the organization, as in
  -- document_chunks. Lexemes with @ stand for periods of time; see run_prefix.
  CREATE TABLE run_terms (
    run_id  text COLLATE "C" PRIMARY KEY,
    org_id  text COLLATE "C" NOT NULL,
    terms   tsvector NOT NULL
  );
  CREATE INDEX run_terms_terms ON run_terms USING gin (terms) WITH (gin_pending_list_limit = 256);

  -- The finished runs whose words are still to be added, and erased runs whose words may still have to be removed.
  CREATE TABLE unindexed_runs (
    run_id  text COLLATE "C" NOT NULL,
    org_id  text COLLATE "C" NOT NULL
  ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

  FOREACH name IN ARRAY ARRAY['run_terms', 'unindexed_runs'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = %s) WITH CHECK (org_id = %s)', name, named, named);
  END LOOP;
  GRANT SELECT, DELETE ON run_terms TO parley_app;
  GRANT SELECT, INSERT ON unindexed_runs TO parley_app;
  GRANT SELECT, INSERT, DELETE ON run_terms TO parley_system;
  GRANT SELECT, DELETE ON unindexed_runs TO parley_system;
END $$;
-- +goose StatementEnd

-- The trigger exists before the older runs are added, so that no run is missed. functions/runs_need_index.sql is the same.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_need_index() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO unindexed_runs (run_id, org_id) SELECT g.run_id, g.org_id FROM gone g;
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  CREATE OR REPLACE TRIGGER runs_need_index AFTER DELETE ON open_runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION runs_need_index();
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE
  done text := '';
  part text[];
BEGIN
  LOOP
    part := ARRAY(SELECT r.id FROM runs r WHERE r.id > done ORDER BY r.id LIMIT 10000);
    EXIT WHEN cardinality(part) = 0;
    INSERT INTO unindexed_runs (run_id, org_id) SELECT r.id, r.org_id FROM runs r WHERE r.id = ANY (part) AND r.status IS NOT NULL;
    done := part[cardinality(part)];
    COMMIT;
  END LOOP;
END $$;
-- +goose StatementEnd

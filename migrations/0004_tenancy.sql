-- +goose NO TRANSACTION
-- +goose Up
-- Row-level security, as docs/security.md ("Tenancy") describes it: roles, whose each row is, policies. Binaries of
-- before this file work while it runs and run beside those of after it: they act as the tables' owner, to whom the
-- policy "system" applies. A later migration that rewrites rows of several organizations may rely on the same.
--
-- Each change of a table is a transaction of its own. A transaction that holds one table while it waits for another
-- would deadlock with the service, whose statements take tables in orders of their own. It waits for its table at most
-- 2 s, so that what queues up behind it does not fail, and no less than deadlock_timeout, after which the server tells
-- autovacuum to give way. Migrations that did not get their lock are tried again, so everything here can be repeated.
--
-- The service acts as parley_app. parley_system owns the functions that must look across organizations. Roles are
-- the whole server's: the migration of another of its databases may have made them.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
  me text := quote_ident(current_user);
BEGIN
  FOREACH name IN ARRAY ARRAY['parley_app', 'parley_system'] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN', name);
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL; -- another database's migration has just made it
    END;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = name AND (rolsuper OR rolbypassrls)) THEN
      RAISE EXCEPTION 'the role % bypasses row-level security: let an administrator run ALTER ROLE % NOSUPERUSER NOBYPASSRLS', name, name;
    END IF;
    IF NOT pg_has_role(current_user, name, 'USAGE') THEN
      EXECUTE format('GRANT %I TO %s', name, me);
    END IF;
  END LOOP;
  IF pg_has_role('parley_app', 'parley_system', 'MEMBER') THEN
    RAISE EXCEPTION 'parley_app is a member of parley_system: let an administrator run REVOKE parley_system FROM parley_app';
  END IF;
  GRANT USAGE ON SCHEMA public TO parley_app, parley_system;
  -- The next migration needs this right: who is to own a function must be allowed to make it.
  GRANT CREATE ON SCHEMA public TO parley_system;
  IF NOT has_schema_privilege('parley_app', 'public', 'USAGE') OR NOT has_schema_privilege('parley_system', 'public', 'USAGE')
    OR NOT has_schema_privilege('parley_system', 'public', 'CREATE') THEN
    RAISE insufficient_privilege;
  END IF;
  REVOKE CREATE ON SCHEMA public FROM parley_system;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE insufficient_privilege USING MESSAGE = format('%s may not make the roles of row-level security. Let an administrator run '
    'in this database, then migrate again: CREATE ROLE parley_app NOLOGIN; CREATE ROLE parley_system NOLOGIN; '
    'GRANT parley_app, parley_system TO %s; GRANT USAGE, CREATE ON SCHEMA public TO %s WITH GRANT OPTION', me, me, me);
END $$;
-- +goose StatementEnd

-- The organizations that the transaction acts for; null, which equals nothing, when none were named.
CREATE OR REPLACE FUNCTION parley_organizations() RETURNS text[]
  LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT string_to_array(nullif(current_setting('parley.organizations', true), ''), ',') $$;

-- Binaries of before this file do not say whose a step or a configuration is.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION steps_organization() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  NEW.org_id := (SELECT r.org_id FROM runs r WHERE r.id = NEW.run_id);
  RETURN NEW;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION agent_configs_organization() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  NEW.org_id := (SELECT a.org_id FROM agents a WHERE a.id = NEW.target_id);
  RETURN NEW;
END $$;
-- +goose StatementEnd

-- Whose a step or a configuration is; a template's configuration is nobody's, and everybody may read it. And of a run,
-- when it was first started, kept past its open row, and the number of its last event: null while the run is open,
-- and for those that a binary of before this file has ended.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['steps', 'agent_configs'] LOOP
    PERFORM set_config('lock_timeout', '2s', true);
    EXECUTE format('ALTER TABLE %I ADD COLUMN IF NOT EXISTS org_id text COLLATE "C"', name);
    EXECUTE format('DROP TRIGGER IF EXISTS %1$I ON %2$I', name || '_organization', name);
    EXECUTE format('CREATE TRIGGER %1$I BEFORE INSERT ON %2$I FOR EACH ROW WHEN (NEW.org_id IS NULL) EXECUTE FUNCTION %1$I()',
      name || '_organization', name);
    COMMIT;
  END LOOP;
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE runs ADD COLUMN IF NOT EXISTS started_at timestamptz, ADD COLUMN IF NOT EXISTS end_fence bigint, ADD COLUMN IF NOT EXISTS end_n int;
END $$;
-- +goose StatementEnd

-- The steps there are, some thousand at a time. What somebody is deleting is left alone, and looked for again in the
-- next round, until there is nothing left. Steps of runs that are gone go.
-- +goose StatementBegin
DO $$
DECLARE
  after_run text;
  after_n int;
  last_run text;
  last_n int;
BEGIN
  WHILE EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'steps'::regclass AND attname = 'org_id' AND NOT attnotnull)
    AND EXISTS (SELECT FROM steps WHERE org_id IS NULL) LOOP
    after_run := '';
    after_n := 0;
    LOOP
      -- Plans that are good for a batch, whatever is known of the table, which is being rewritten.
      PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
      SELECT run_id, n INTO last_run, last_n FROM (
        SELECT run_id, n FROM steps WHERE (run_id, n) > (after_run, after_n) ORDER BY run_id, n LIMIT 2000) batch
      ORDER BY run_id DESC, n DESC LIMIT 1;
      EXIT WHEN NOT FOUND;
      WITH batch AS MATERIALIZED (
        SELECT run_id, n FROM steps
        WHERE (run_id, n) > (after_run, after_n) AND (run_id, n) <= (last_run, last_n) AND org_id IS NULL
        ORDER BY run_id, n FOR UPDATE SKIP LOCKED
      ), owned AS (
        UPDATE steps s SET org_id = r.org_id FROM batch b JOIN runs r ON r.id = b.run_id WHERE s.run_id = b.run_id AND s.n = b.n
      )
      DELETE FROM steps s USING batch b
      WHERE s.run_id = b.run_id AND s.n = b.n AND NOT EXISTS (SELECT FROM runs r WHERE r.id = b.run_id);
      COMMIT;
      after_run := last_run;
      after_n := last_n;
    END LOOP;
  END LOOP;
END $$;
-- +goose StatementEnd
-- Rows that are never changed: whoever reads or adds some does not wait for this.
UPDATE agent_configs c SET org_id = a.org_id FROM agents a WHERE a.id = c.target_id AND c.org_id IS NULL;

-- The table is read for the constraint while it is in use; with it, NOT NULL needs no look.
-- +goose StatementBegin
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'steps'::regclass AND attname = 'org_id' AND attnotnull) THEN
    RETURN;
  END IF;
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE steps DROP CONSTRAINT IF EXISTS steps_have_organizations;
  ALTER TABLE steps ADD CONSTRAINT steps_have_organizations CHECK (org_id IS NOT NULL) NOT VALID;
  COMMIT;
  ALTER TABLE steps VALIDATE CONSTRAINT steps_have_organizations;
  COMMIT;
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE steps ALTER COLUMN org_id SET NOT NULL;
  ALTER TABLE steps DROP CONSTRAINT steps_have_organizations;
END $$;
-- +goose StatementEnd

-- Lists of sessions, newest first: an organization's, and one principal's. Automations have a session for each run
-- and one principal, so theirs are kept out of what only people's sessions need; the last finds those by name.
-- What an index build that failed left behind is no index, but has its name.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  FOREACH name IN ARRAY ARRAY['sessions_org', 'sessions_principal'] LOOP
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(name) AND NOT indisvalid) THEN
      EXECUTE format('DROP INDEX %I', name);
    END IF;
  END LOOP;
END $$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS sessions_org ON sessions (org_id, ref);
CREATE INDEX CONCURRENTLY IF NOT EXISTS sessions_principal ON sessions (org_id, principal, ref) WHERE principal <> 'system';

-- The subquery is run once a statement, not once a row. The collation, which makes no difference to equality, keeps the
-- planner from reading all rows of the organizations by an index on org_id where a statement names its rows by others:
-- it believes that to be cheap while tables are small, which is when the service's plans are made.
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['agents', 'agent_configs', 'sessions', 'runs', 'open_runs', 'steps'] LOOP
    PERFORM set_config('lock_timeout', '2s', true);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (%s org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]))',
      name, CASE WHEN name = 'agent_configs' THEN 'org_id IS NULL OR' ELSE '' END);
    COMMIT;
  END LOOP;
END $$;
-- +goose StatementEnd
-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['agents', 'agent_configs', 'sessions', 'runs', 'open_runs', 'steps'] LOOP
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY', name);
    COMMIT;
  END LOOP;
END $$;
-- +goose StatementEnd
DROP INDEX IF EXISTS sessions_org, sessions_principal;
DROP TRIGGER IF EXISTS steps_organization ON steps;
DROP TRIGGER IF EXISTS agent_configs_organization ON agent_configs;
DROP FUNCTION IF EXISTS steps_organization, agent_configs_organization, parley_organizations;
ALTER TABLE runs DROP COLUMN IF EXISTS started_at, DROP COLUMN IF EXISTS end_fence, DROP COLUMN IF EXISTS end_n;
ALTER TABLE steps DROP COLUMN IF EXISTS org_id;
ALTER TABLE agent_configs DROP COLUMN IF EXISTS org_id;
-- The roles are the whole server's, and stay.
REVOKE USAGE ON SCHEMA public FROM parley_app, parley_system;

-- +goose NO TRANSACTION
-- +goose Up
-- What a list of one's login sessions shows. As in 0004_tenancy.sql, while binaries of before it log people in and out.

-- A random id of the kind ls_, for sessions that a release without such ids begins.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION parley_login_id() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT 'ls_0' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (get_byte(random.bytes, at) & 31), 1), '')
  FROM (SELECT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) AS bytes) random, generate_series(0, 24) at
$$;
-- +goose StatementEnd

-- The default comes after the column: with it, adding the column would write all rows anew.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE login_sessions
    ADD COLUMN IF NOT EXISTS id            text COLLATE "C",
    ADD COLUMN IF NOT EXISTS user_agent    text NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS address       text NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS last_used_at  timestamptz;
  ALTER TABLE login_sessions ALTER COLUMN id SET DEFAULT parley_login_id();
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE
  after_hash bytea;
  last_hash bytea;
BEGIN
  WHILE EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'login_sessions'::regclass AND attname = 'id' AND NOT attnotnull)
    AND EXISTS (SELECT FROM login_sessions WHERE id IS NULL) LOOP
    after_hash := '';
    LOOP
      PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
      SELECT token_hash INTO last_hash FROM (
        SELECT token_hash FROM login_sessions WHERE token_hash > after_hash ORDER BY token_hash LIMIT 1000) batch
      ORDER BY token_hash DESC LIMIT 1;
      EXIT WHEN NOT FOUND;
      WITH batch AS MATERIALIZED (
        SELECT token_hash FROM login_sessions WHERE token_hash > after_hash AND token_hash <= last_hash AND id IS NULL
        ORDER BY token_hash FOR UPDATE SKIP LOCKED
      )
      UPDATE login_sessions s SET id = parley_login_id() FROM batch b WHERE s.token_hash = b.token_hash;
      COMMIT;
      after_hash := last_hash;
    END LOOP;
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'login_sessions'::regclass AND attname = 'id' AND attnotnull) THEN
    RETURN;
  END IF;
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE login_sessions DROP CONSTRAINT IF EXISTS login_sessions_have_ids;
  ALTER TABLE login_sessions ADD CONSTRAINT login_sessions_have_ids CHECK (id IS NOT NULL) NOT VALID;
  COMMIT;
  ALTER TABLE login_sessions VALIDATE CONSTRAINT login_sessions_have_ids;
  COMMIT;
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE login_sessions ALTER COLUMN id SET NOT NULL;
  ALTER TABLE login_sessions DROP CONSTRAINT login_sessions_have_ids;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('login_sessions_id') AND NOT indisvalid) THEN
    DROP INDEX login_sessions_id;
  END IF;
END $$;
-- +goose StatementEnd
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS login_sessions_id ON login_sessions (id);
-- +goose Down
ALTER TABLE login_sessions DROP COLUMN IF EXISTS id, DROP COLUMN IF EXISTS user_agent, DROP COLUMN IF EXISTS address,
  DROP COLUMN IF EXISTS last_used_at;
DROP FUNCTION IF EXISTS parley_login_id();

-- +goose Up
-- The run of the same session that a run continues. null: the preceding run of the session. Empty: none, because the
-- request contained the whole history.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE runs ADD COLUMN IF NOT EXISTS previous_run text COLLATE "C";
END $$;
-- +goose StatementEnd

-- +goose Up
-- Of the executions of a call, the one that made the last check before the effect was sent. Only this execution may
-- report that it sent nothing.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE effects ADD COLUMN IF NOT EXISTS sender text NOT NULL DEFAULT '';
END $$;
-- +goose StatementEnd

-- +goose Down
ALTER TABLE effects DROP COLUMN sender;

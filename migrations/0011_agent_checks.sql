-- +goose NO TRANSACTION
-- +goose Up
-- append_sources adds a source list to the agent's answers on /v1. last_check is the result of the last check of the
-- agent's connections; null: never checked.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE agents
    ADD COLUMN IF NOT EXISTS append_sources boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS last_check jsonb;
END $$;
-- +goose StatementEnd

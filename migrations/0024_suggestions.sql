-- +goose NO TRANSACTION
-- +goose Up
-- The questions that an agent's empty chat offers.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE agents ADD COLUMN IF NOT EXISTS suggestions text[] NOT NULL DEFAULT '{}';
END $$;
-- +goose StatementEnd

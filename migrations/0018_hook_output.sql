-- +goose Up
-- The JSON Schema that the answers to a hook's deliveries must match; null: the agent's own.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE hooks ADD COLUMN IF NOT EXISTS output_schema json;
END $$;
-- +goose StatementEnd

-- +goose Down
ALTER TABLE hooks DROP COLUMN output_schema;

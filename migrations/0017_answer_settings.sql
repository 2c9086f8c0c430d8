-- +goose Up
-- Settings of an agent's answers: the JSON of domain.AnswerSettings.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE agents ADD COLUMN IF NOT EXISTS answer_settings json NOT NULL DEFAULT '{}';
END $$;
-- +goose StatementEnd

-- +goose Down
ALTER TABLE agents DROP COLUMN answer_settings;

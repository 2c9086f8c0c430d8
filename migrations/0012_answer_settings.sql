-- +goose Up
-- Settings of an agent's answers: the JSON of domain.AnswerSettings.
ALTER TABLE agents ADD COLUMN answer_settings json NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE agents DROP COLUMN answer_settings;

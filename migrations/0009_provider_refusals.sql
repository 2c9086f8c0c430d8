-- +goose Up
-- The status and message of the response with which a model provider refused the attempt's last model call; null: no
-- provider did. Only admins read them. Functions that return runs now also return the version of the run's agent.
SET LOCAL lock_timeout = '2s';
ALTER TABLE run_attempts ADD COLUMN IF NOT EXISTS provider_status int, ADD COLUMN IF NOT EXISTS provider_message text;

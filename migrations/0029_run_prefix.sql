-- +goose Up
-- run_prefix and index_runs replace run_lexemes.
SET lock_timeout = '2s';
DROP FUNCTION IF EXISTS run_lexemes(text, text, text[]);
RESET lock_timeout;

-- +goose Up
-- Runs are always accepted before they are executed.
DROP FUNCTION IF EXISTS insert_finished_runs(late_run[], text[]);
DROP TYPE IF EXISTS late_run;

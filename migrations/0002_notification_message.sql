-- +goose Up
-- unnotify_runs_removed words its message differently.
SELECT 1;

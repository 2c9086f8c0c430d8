-- +goose Up
-- The function unnotify_runs_removed writes another message than before.
SELECT 1;

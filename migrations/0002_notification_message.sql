-- +goose Up
-- The message of the function unnotify_runs_removed differs from that of the previous release.
SELECT 1;

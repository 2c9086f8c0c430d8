-- +goose Up
-- The execution of a call that made the last check before the effect was sent. Only this execution may report that it sent
-- nothing.
ALTER TABLE effects ADD COLUMN sender text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE effects DROP COLUMN sender;

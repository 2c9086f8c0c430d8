-- +goose Up
-- Whether the row's last write let its request through: the statement that counts returns it.
ALTER TABLE demo_clients ADD COLUMN allowed boolean NOT NULL DEFAULT true;

-- Token buckets of the user and system tiers. Ingresses lease tokens in chunks, so that however
-- many there are they share one limit. Unlogged: a crash may refill a bucket, and costs no disk.
CREATE UNLOGGED TABLE rate_buckets (
  name       text COLLATE "C" PRIMARY KEY,
  tokens     double precision NOT NULL,
  granted    int NOT NULL, -- what the last lease got
  filled_at  timestamptz NOT NULL
) WITH (fillfactor = 70);
-- +goose Down
DROP TABLE rate_buckets;
ALTER TABLE demo_clients DROP COLUMN allowed;

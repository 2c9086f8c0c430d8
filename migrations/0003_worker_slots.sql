-- +goose Up
-- The slots of the running workers: worker_id executes up to slots runs of each lane. A worker renews its row with its
-- leases, and deletes it when it stops. A row of a dead worker counts until it expires.
CREATE TABLE worker_slots (
  worker_id   text COLLATE "C" PRIMARY KEY,
  slots       int NOT NULL,
  expires_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

GRANT SELECT, INSERT, UPDATE, DELETE ON worker_slots TO parley_system;

-- +goose Down
DROP TABLE worker_slots;

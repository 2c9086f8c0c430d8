-- +goose NO TRANSACTION
-- +goose Up
-- Removes the titles of attachments' texts, which were the names of files. Files with other names can have the same text,
-- also those of other people. Only these texts have no URL. Each transaction locks one row, so none waits while it holds
-- a lock.
-- +goose StatementBegin
DO $$
DECLARE
  named record;
BEGIN
  FOR named IN SELECT s.org_id, s.hash FROM sources s WHERE s.url = '' AND s.title <> '' LOOP
    UPDATE sources SET title = '' WHERE org_id = named.org_id AND hash = named.hash;
    COMMIT;
  END LOOP;
END $$;
-- +goose StatementEnd

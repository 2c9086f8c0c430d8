-- +goose NO TRANSACTION
-- +goose Up
-- Removes the titles of attachments' texts. A title was the name of one file, but all files with the same content share a
-- text, including files of other people. Texts of attachments are those without a URL. Each transaction locks one row, so
-- no transaction waits while it holds a lock.
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

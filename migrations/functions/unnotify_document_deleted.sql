-- Deletes the notifications of a deleted document.
--
-- A notification that a worker is sending may still arrive.
CREATE OR REPLACE FUNCTION unnotify_document_deleted() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM notifications WHERE subject_id = OLD.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER unnotify_document_deleted AFTER DELETE ON documents
  FOR EACH ROW EXECUTE FUNCTION unnotify_document_deleted();

-- Returns the documents of an organization that are not ready but may have chunks.
--
-- Called by the functions for searches, which exclude these documents. There are few of them, so
-- excluding them is faster than joining all ready documents.
CREATE OR REPLACE FUNCTION unready_documents(org text) RETURNS text[]
  LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RETURN ARRAY(SELECT d.id FROM documents d WHERE d.org_id = org AND d.status = 'processing'
    UNION ALL SELECT d.id FROM documents d WHERE d.org_id = org AND d.error_code = 'deleting');
END $$;

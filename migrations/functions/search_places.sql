-- Returns the row locations (ctid) of up to `most` chunks of an organization that match a query and
-- `must`, in the documents `chosen` (null: all).
--
-- A chunk may be in a document that is not ready; the caller checks that. Called by search_terms,
-- with its privileges. Takes no row locks.
CREATE OR REPLACE FUNCTION search_places(org text, query tsquery, must tsquery, chosen text[], most int) RETURNS tid[]
  LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF must IS NOT NULL THEN
    query := query && must;
  END IF;
  IF chosen IS NULL THEN
    RETURN ARRAY(SELECT c.ctid FROM document_chunks c WHERE c.terms @@ query AND c.org_id = org LIMIT most);
  END IF;
  RETURN ARRAY(SELECT c.ctid FROM document_chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.terms @@ query AND c.org_id = org AND d.id = ANY (chosen) LIMIT most);
END $$;

-- Returns the given lexemes that an organization's documents contain, and the number of chunks with
-- each. Each lexeme of the organization begins with prefix. If not all terms of the documents are
-- counted, the function looks up each lexeme without a count in the chunks. If a chunk contains the
-- lexeme, the result gives 1 as the number of chunks. Returns nothing unless the transaction acts
-- for the organization.
--
-- Called by search_terms and search_similar, and by knowledgedb.KnowledgeWords. Takes no row locks.
CREATE OR REPLACE FUNCTION known_terms(org text, prefix text, lexemes text[]) RETURNS TABLE (term text, chunks int)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
DECLARE
  unread text[];
  rest text[];
  query tsquery;
BEGIN
  IF (org = ANY (parley_organizations())) IS NOT TRUE THEN
    RETURN;
  END IF;
  RETURN QUERY SELECT t.term, t.chunks FROM knowledge_terms t WHERE t.org_id = org AND t.term = ANY (lexemes) AND t.term <> '';
  IF NOT EXISTS (SELECT FROM knowledge_terms t WHERE t.org_id = org AND t.term = '' AND t.rest > 0) THEN
    RETURN;
  END IF;
  unread := unready_documents(org);
  rest := ARRAY(SELECT l.lexeme FROM unnest(lexemes) AS l (lexeme) WHERE l.lexeme <> ''
    EXCEPT SELECT t.term FROM knowledge_terms t WHERE t.org_id = org AND t.term = ANY (lexemes));
  FOREACH term IN ARRAY rest LOOP
    query := ('''' || prefix || replace(replace(term, '\', '\\'), '''', '''''') || '''')::tsquery;
    IF EXISTS (SELECT FROM document_chunks c WHERE c.terms @@ query AND c.org_id = org AND c.document_id <> ALL (unread)) THEN
      chunks := 1;
      RETURN NEXT;
    END IF;
  END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION known_terms FROM PUBLIC;
GRANT EXECUTE ON FUNCTION known_terms TO parley_app;
ALTER FUNCTION known_terms OWNER TO parley_system;

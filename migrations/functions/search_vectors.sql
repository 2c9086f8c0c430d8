-- Returns the chunks of an organization whose vectors from a model are nearest to a given vector.
-- sought contains the signs of the given vector, and vec its numbers. ids contains the documents to
-- search (empty: all), and wanted contains metadata that the documents must have. Up to `compared`
-- vectors whose signs differ least are compared, and up to `most` chunks are returned. Without
-- pgvector, all chunks that would be compared are returned, with their vectors and without scores.
-- Returns nothing unless the transaction acts for the organization.
--
-- Called by knowledgedb.SearchVectors. Vectors of another model or length are ignored. Only chunks
-- of ready documents are returned. Takes no row locks.
CREATE OR REPLACE FUNCTION search_vectors(org text, made_by text, sought bit varying, vec real[], ids text[], wanted jsonb, compared int, most int)
  RETURNS TABLE (chunk_id bigint, score float8, numbers bytea)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  chosen text[];
  unread text[] := unready_documents(org);
  nearest bigint[];
  home text; -- the quoted schema of pgvector
BEGIN
  IF (org = ANY (parley_organizations())) IS NOT TRUE THEN -- the same check as in search_terms
    RETURN;
  END IF;
  IF cardinality(ids) > 0 THEN
    chosen := ARRAY(SELECT d.id FROM documents d WHERE d.id = ANY (ids) AND d.org_id = org AND d.status = 'ready' AND d.metadata @> wanted);
  ELSIF wanted <> '{}' THEN
    chosen := ARRAY(SELECT d.id FROM documents d WHERE d.org_id = org AND d.status = 'ready' AND d.metadata @> wanted);
  END IF;
  IF chosen IS NULL THEN
    nearest := ARRAY(SELECT v.chunk_id FROM document_vectors v WHERE v.org_id = org AND v.model = made_by AND length(v.signs) = length(sought)
      AND v.document_id <> ALL (unread) ORDER BY bit_count(v.signs # sought), v.chunk_id LIMIT compared);
  ELSE
    nearest := ARRAY(SELECT v.chunk_id FROM unnest(chosen) AS c (id) JOIN document_vectors v ON v.document_id = c.id
      WHERE v.org_id = org AND v.model = made_by AND length(v.signs) = length(sought) ORDER BY bit_count(v.signs # sought), v.chunk_id LIMIT compared);
  END IF;
  -- Each search looks for pgvector, because an administrator may install or drop it. pgvector
  -- accepts up to 16000 dimensions.
  SELECT quote_ident(n.nspname) INTO home FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
  WHERE e.extname = 'vector' AND has_schema_privilege(n.oid, 'USAGE') AND cardinality(vec) <= 16000;
  IF home IS NULL THEN
    RETURN QUERY SELECT v.chunk_id, NULL::float8, array_send(v.vector) FROM document_vectors v JOIN documents d ON d.id = v.document_id
      WHERE v.chunk_id = ANY (nearest) AND v.org_id = org AND d.org_id = org AND d.status = 'ready';
    RETURN;
  END IF;
  -- The score is the dot product, as SearchVectors computes it; <#> returns its negative.
  RETURN QUERY EXECUTE replace('SELECT n.chunk_id, -n.distance, NULL::bytea FROM (
      SELECT v.chunk_id, v.vector::HOME.vector OPERATOR(HOME.<#>) $2::HOME.vector AS distance
      FROM document_vectors v JOIN documents d ON d.id = v.document_id
      WHERE v.chunk_id = ANY ($1) AND v.org_id = $4 AND d.org_id = $4 AND d.status = ''ready'') n ORDER BY n.distance, n.chunk_id LIMIT $3',
      'HOME', home)
    USING nearest, vec, most, org;
END $$;
REVOKE EXECUTE ON FUNCTION search_vectors FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search_vectors TO parley_app;
ALTER FUNCTION search_vectors OWNER TO parley_system;

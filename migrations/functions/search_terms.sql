-- Returns up to `most` chunks of an organization that contain at least one of the words of a query,
-- the best chunks first. Each lexeme of the organization begins with prefix. For each lexeme of the
-- query, the arguments contain the number of its word and a weight. ids contains the documents to
-- search (empty: all), and wanted contains metadata that the documents must have. If some words
-- have negative numbers, a chunk must contain at least one of these words. Returns nothing unless
-- the transaction acts for the organization.
--
-- A word counts more if fewer chunks contain it, and if a chunk contains it repeatedly, although
-- each repetition counts less (Okapi BM25). A word in a heading counts twice. The rarest words
-- determine the chunks to rank: first the chunks that contain one of the rarest words, then chunks
-- that contain all of the other words, then some chunks that contain two of the other words. So the
-- cost of a search does not grow with the frequency of its words.
--
-- Called by knowledgedb.SearchText and by search_similar. Only chunks of ready documents are
-- returned. Takes no row locks.
CREATE OR REPLACE FUNCTION search_terms(org text, prefix text, word int[], lexemes text[], weights real[], ids text[], wanted jsonb, most int)
  RETURNS TABLE (chunk_id bigint, score float8)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  near CONSTANT int := 1500; -- number of chunks that are ranked at a time
  total float8 := (SELECT t.chunks FROM knowledge_terms t WHERE t.org_id = org AND t.term = '');
  queries tsquery[]; -- one for each word, the rarest first
  counts float8[];
  worths float8[];
  often float8[];
  musts bool[];
  must tsquery;
  chosen text[]; -- documents
  unread text[] := unready_documents(org);
  held bigint;
  rare int := 0; -- number of rare words
  sum float8 := 0;
  rest int;
  part tsquery;
  places tid[] := '{}';
  more tid[];
BEGIN
  IF (org = ANY (parley_organizations())) IS NOT TRUE THEN
    RETURN;
  END IF;
  SELECT array_agg(w.query::tsquery ORDER BY w.chunks, w.n), array_agg(w.chunks ORDER BY w.chunks, w.n),
    array_agg(w.weight * ln(1 + (total - w.chunks + 0.5) / (w.chunks + 0.5)) ORDER BY w.chunks, w.n), array_agg(w.n < 0 ORDER BY w.chunks, w.n),
    array_agg(1.645::float8 * w.forms ORDER BY w.chunks, w.n)
  INTO queries, counts, worths, musts, often
  FROM (SELECT u.n, least(sum(t.chunks), total) AS chunks, max(u.weight) AS weight, count(*) AS forms,
      string_agg('''' || prefix || replace(replace(u.lexeme, '\', '\\'), '''', '''''') || '''', '|') AS query
    FROM (SELECT DISTINCT ON (u.n, u.lexeme) * FROM unnest(word, lexemes, weights) AS u (n, lexeme, weight)) u
    JOIN known_terms(org, prefix, lexemes) t ON t.term = u.lexeme
    GROUP BY u.n ORDER BY 2, 1 LIMIT 32) w;
  IF queries IS NULL THEN
    RETURN;
  END IF;
  FOR i IN 1 .. cardinality(queries) LOOP
    IF musts[i] THEN
      must := CASE WHEN must IS NULL THEN queries[i] ELSE must || queries[i] END;
    END IF;
  END LOOP;

  IF cardinality(ids) > 0 THEN
    SELECT array_agg(d.id), sum(d.chunks) INTO chosen, held FROM documents d
    WHERE d.id = ANY (ids) AND d.org_id = org AND d.status = 'ready' AND d.metadata @> wanted;
  ELSIF wanted <> '{}' THEN
    SELECT array_agg(d.id), sum(d.chunks) INTO chosen, held FROM documents d
    WHERE d.org_id = org AND d.status = 'ready' AND d.metadata @> wanted;
  END IF;
  IF (cardinality(ids) > 0 OR wanted <> '{}') AND chosen IS NULL THEN
    RETURN;
  END IF;

  IF held <= near THEN
    places := ARRAY(SELECT c.ctid FROM document_chunks c WHERE c.document_id = ANY (chosen) AND c.org_id = org);
  ELSE
    LOOP
      sum := sum + counts[rare + 1];
      EXIT WHEN sum > near OR rare = cardinality(queries);
      rare := rare + 1;
      part := CASE WHEN part IS NULL THEN queries[rare] ELSE part || queries[rare] END;
    END LOOP;
    IF part IS NOT NULL THEN
      places := search_places(org, part, must, chosen, NULL);
    END IF;
    rest := cardinality(queries) - rare;
    IF rest > 0 THEN
      part := queries[rare + 1];
      FOR i IN rare + 2 .. cardinality(queries) LOOP
        part := part && queries[i];
      END LOOP;
      more := search_places(org, part, must, chosen, CASE WHEN rest > 1 OR rare = 0 THEN 2 * near ELSE near / 2 END);
      places := places || more;
    END IF;
    IF rest > 2 AND cardinality(more) < 200 + 4 * most THEN
      part := queries[rare + 2];
      FOR i IN rare + 3 .. cardinality(queries) LOOP
        part := part || queries[i];
      END LOOP;
      places := places || search_places(org, part && queries[rare + 1], must, chosen, near);
    END IF;
    IF rest > 1 AND cardinality(places) < most THEN
      places := places || search_places(org, queries[rare + 1], must, chosen, near);
    END IF;
  END IF;

  -- The scores of the first eight words are written out. A subquery for each chunk would take three
  -- times as long.
  RETURN QUERY
  SELECT b.id, b.score FROM (
    SELECT r.id, r.document_id, coalesce(worths[1] * (1 - r.l / (r.l + often[1] * ts_rank('{0.5, 0.5, 0.5, 1}', r.terms, queries[1]))), 0)
      + coalesce(worths[2] * (1 - r.l / (r.l + often[2] * ts_rank('{0.5, 0.5, 0.5, 1}', r.terms, queries[2]))), 0)
      + coalesce(worths[3] * (1 - r.l / (r.l + often[3] * ts_rank('{0.5, 0.5, 0.5, 1}', r.terms, queries[3]))), 0)
      + coalesce(worths[4] * (1 - r.l / (r.l + often[4] * ts_rank('{0.5, 0.5, 0.5, 1}', r.terms, queries[4]))), 0)
      + coalesce(worths[5] * (1 - r.l / (r.l + often[5] * ts_rank('{0.5, 0.5, 0.5, 1}', r.terms, queries[5]))), 0)
      + coalesce(worths[6] * (1 - r.l / (r.l + often[6] * ts_rank('{0.5, 0.5, 0.5, 1}', r.terms, queries[6]))), 0)
      + coalesce(worths[7] * (1 - r.l / (r.l + often[7] * ts_rank('{0.5, 0.5, 0.5, 1}', r.terms, queries[7]))), 0)
      + coalesce(worths[8] * (1 - r.l / (r.l + often[8] * ts_rank('{0.5, 0.5, 0.5, 1}', r.terms, queries[8]))), 0)
      + CASE WHEN cardinality(queries) > 8 THEN (
          SELECT coalesce(sum(w.worth * (1 - r.l / (r.l + w.often * ts_rank('{0.5, 0.5, 0.5, 1}', r.terms, w.query)))), 0)
          FROM unnest(queries[9:], worths[9:], often[9:]) AS w (query, worth, often)) ELSE 0 END AS score
    FROM (SELECT c.id, c.document_id, c.terms, 0.6::float8 + 0.006::float8 * length(c.terms) AS l FROM document_chunks c
      WHERE c.ctid = ANY (places) AND c.org_id = org AND c.document_id <> ALL (unread) OFFSET 0) r
    ORDER BY score DESC, r.id LIMIT 2 * most + 100) b
  JOIN documents d ON d.id = b.document_id AND d.org_id = org AND d.status = 'ready'
  WHERE b.score > 0 ORDER BY b.score DESC, b.id LIMIT most;
END $$;
REVOKE EXECUTE ON FUNCTION search_terms FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search_terms TO parley_app;
ALTER FUNCTION search_terms OWNER TO parley_system;

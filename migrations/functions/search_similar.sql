-- Searches as search_terms does, but replaces words that no chunk of the organization contains by
-- similar terms. Returns nothing if every word occurs in a chunk. texts contains the words as they
-- were written, by their numbers from 0.
--
-- ids, wanted and most are as in search_terms. Called by knowledgedb.SearchSimilar, after a search
-- has found too little. Takes no row locks.
CREATE OR REPLACE FUNCTION search_similar(org text, prefix text, word int[], lexemes text[], texts text[], ids text[], wanted jsonb, most int)
  RETURNS TABLE (chunk_id bigint, score float8)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET pg_trgm.similarity_threshold = 0.3 AS $$
DECLARE
  unknown int[];
  known_words int[];
  known_lexemes text[];
  numbers int[];
  terms text[];
  likeness real[];
BEGIN
  IF (org = ANY (parley_organizations())) IS NOT TRUE THEN -- the same check as in search_terms
    RETURN;
  END IF;
  known_lexemes := ARRAY(SELECT t.term FROM known_terms(org, prefix, lexemes) t);
  SELECT array_agg(u.n) FILTER (WHERE NOT u.known), array_agg(u.n) FILTER (WHERE u.known) INTO unknown, known_words
  FROM (SELECT w.n - 1 AS n, EXISTS (SELECT FROM unnest(word, lexemes) AS l (n, lexeme)
      WHERE l.n = w.n - 1 AND l.lexeme = ANY (known_lexemes)) AS known
    FROM unnest(texts) WITH ORDINALITY AS w (written, n)) u;
  IF unknown IS NULL THEN
    RETURN;
  END IF;
  -- Short words are similar to too many other words, and a number is never a misspelling of another
  -- number.
  SELECT array_agg(-1 - a.n), array_agg(a.term), array_agg(a.likeness) INTO numbers, terms, likeness
  FROM (SELECT u.n, t.term, t.likeness, max(t.likeness) OVER (PARTITION BY u.n) AS best
    FROM (SELECT n FROM unnest(unknown) AS n WHERE texts[n + 1] ~ '[[:alpha:]]{3}' AND length(texts[n + 1]) BETWEEN 4 AND 60 ORDER BY n LIMIT 4) u
    CROSS JOIN LATERAL (
      SELECT t.term, similarity(t.term, texts[u.n + 1]) AS likeness FROM knowledge_terms t
      WHERE t.org_id = org AND t.term % texts[u.n + 1] AND length(t.term) BETWEEN 3 AND 30 ORDER BY 2 DESC, t.chunks DESC, t.term LIMIT 5) t) a
  WHERE a.likeness >= 0.75 * a.best;
  IF numbers IS NULL THEN
    RETURN;
  END IF;
  SELECT array_agg(l.n), array_agg(l.lexeme) INTO known_words, known_lexemes
  FROM unnest(word, lexemes) AS l (n, lexeme) WHERE l.n = ANY (known_words);
  RETURN QUERY SELECT s.chunk_id, s.score FROM search_terms(org, prefix, numbers || known_words, terms || known_lexemes,
    likeness || array_fill(1::real, ARRAY[coalesce(cardinality(known_words), 0)]), ids, wanted, most) s;
END $$;
REVOKE EXECUTE ON FUNCTION search_similar FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search_similar TO parley_app;
ALTER FUNCTION search_similar OWNER TO parley_system;

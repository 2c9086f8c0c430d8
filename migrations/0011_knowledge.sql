-- +goose NO TRANSACTION
-- +goose Up
-- What is searched of documents: their chunks, vectors, and in how many chunks each word is. As in 0010_documents.sql, while
-- binaries of the release before work, and everything can be repeated.

-- Both come with PostgreSQL and may be created by whoever may create in the database. pgvector is taken where it is, for it
-- only makes comparing vectors faster.
-- +goose StatementBegin
DO $$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['pg_trgm', 'btree_gin'] LOOP
    BEGIN
      EXECUTE format('CREATE EXTENSION IF NOT EXISTS %I SCHEMA public', wanted);
    EXCEPTION
      WHEN insufficient_privilege THEN
        RAISE insufficient_privilege USING MESSAGE = format('documents are searched with the extension %s, which %s may not create: '
          'let an administrator run this in the database, then migrate again: CREATE EXTENSION %s SCHEMA public', wanted, current_user, wanted);
      WHEN undefined_file THEN
        RAISE undefined_file USING MESSAGE = format('documents are searched with the extension %s, which is not installed on the '
          'database server: it comes with PostgreSQL''s contrib modules; then migrate again', wanted);
    END;
    IF NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = wanted AND e.extnamespace = 'public'::regnamespace) THEN
      RAISE EXCEPTION 'the extension % is not in the schema public: let an administrator run ALTER EXTENSION % SET SCHEMA public, then migrate again', wanted, wanted;
    END IF;
  END LOOP;
  BEGIN
    CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;
  EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'pgvector is not used: %', SQLERRM;
  END;
END $$;
-- +goose StatementEnd

-- A chunk is searched when its document is ready. The lexemes in terms begin with a few characters that stand for the
-- organization, which makes the lists of a word in the index an organization's own: their length is what a search costs.
-- Words of headings have the weight A.
CREATE TABLE IF NOT EXISTS document_chunks (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org_id       text COLLATE "C" NOT NULL,
  document_id  text COLLATE "C" NOT NULL,
  n            int NOT NULL CHECK (n >= 0),
  page         int, -- null: the format has none
  headings     text[] NOT NULL,
  start_at     int NOT NULL,
  end_at       int NOT NULL,
  box          real[] CHECK (cardinality(box) = 4),
  text         text NOT NULL,
  terms        tsvector NOT NULL,
  CONSTRAINT document_chunks_number UNIQUE (document_id, n)
);
-- Ranking reads terms of thousands of chunks, and nothing else of them: these stay in the row, as they are, and texts go out of it.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE document_chunks ALTER terms SET STORAGE MAIN;
  ALTER TABLE document_chunks SET (toast_tuple_target = 4000);
END $$;
-- +goose StatementEnd
-- Every search reads all that waits to be put in its place, so little may wait; but what has waited together is put there for a third.
CREATE INDEX IF NOT EXISTS document_chunks_terms ON document_chunks USING gin (terms) WITH (gin_pending_list_limit = 256);

-- Of chunks that have one. Vectors are of length 1; signs has a bit for each of their numbers, 1 for those above 0.
CREATE TABLE IF NOT EXISTS document_vectors (
  chunk_id     bigint PRIMARY KEY,
  org_id       text COLLATE "C" NOT NULL,
  document_id  text COLLATE "C" NOT NULL,
  model        text COLLATE "C" NOT NULL,
  signs        bit varying NOT NULL,
  vector       real[] NOT NULL
);
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE document_vectors ALTER vector SET STORAGE EXTERNAL; -- numbers at random do not compress
  ALTER TABLE document_vectors ALTER signs SET STORAGE MAIN; -- these are read of all chunks
END $$;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS document_vectors_org ON document_vectors (org_id, model, document_id);
CREATE INDEX IF NOT EXISTS document_vectors_document ON document_vectors (document_id);

-- In how many chunks of an organization's ready documents a term is; of the term '', how many chunks there are, and of how many
-- documents the rest of the terms is not counted. Whoever changes any locks that one first.
CREATE TABLE IF NOT EXISTS knowledge_terms (
  org_id  text COLLATE "C" NOT NULL,
  term    text COLLATE "C" NOT NULL,
  chunks  int NOT NULL,
  rest    int NOT NULL DEFAULT 0,
  PRIMARY KEY (org_id, term)
) WITH (fillfactor = 70);
-- Of what somebody may spell wrong; search_similar says the same. Little may wait here, too.
CREATE INDEX IF NOT EXISTS knowledge_terms_alike ON knowledge_terms USING gin (org_id, term gin_trgm_ops) WITH (gin_pending_list_limit = 128)
  WHERE length(term) BETWEEN 3 AND 30;

-- What each document has added to knowledge_terms; rest: there are more terms in it, which are rare.
CREATE TABLE IF NOT EXISTS indexed_documents (
  document_id  text COLLATE "C" PRIMARY KEY,
  org_id       text COLLATE "C" NOT NULL,
  chunks       int NOT NULL,
  rest         bool NOT NULL,
  terms        text[] COLLATE "C" NOT NULL,
  counts       int[] NOT NULL
);

-- Documents that are being deleted: their chunks may be there still.
CREATE INDEX IF NOT EXISTS documents_going ON documents (org_id) WHERE error_code = 'deleting';

-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['document_chunks', 'document_vectors', 'knowledge_terms', 'indexed_documents'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]))', name);
  END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE, DELETE ON document_chunks, document_vectors, knowledge_terms, indexed_documents TO parley_app;
GRANT SELECT, DELETE ON document_chunks, document_vectors TO parley_system;
GRANT SELECT ON knowledge_terms TO parley_system;
GRANT SELECT, UPDATE ON documents TO parley_system;

-- Takes documents into hand: how many, until when, how many workers one may cost, and the organizations of which none is taken. Each is
-- of the organization that has the fewest in hand, and of its documents the one whose bytes are the fewest for the time that it has waited. Of
-- organizations with as many in hand it is the one of this document, or by lot: half of the time each, so that small documents come before
-- large ones and yet nobody's are passed by for good. What a dead attempt has written goes. Whoever claims waits for each
-- other, so that each sees what the other took. A lease that has run out is over, but not within a lease of the server's start: see lost_runs.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION claim_documents(most int, lease interval, deadly int, passed text[]) RETURNS SETOF documents
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  taken text[];
  lot bool := random() < 0.5;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('claim_documents', 0));
  WITH RECURSIVE waiting AS (
    (SELECT d.org_id FROM documents d WHERE d.status = 'queued' ORDER BY d.org_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.org_id FROM documents d WHERE d.status = 'queued' AND d.org_id > w.org_id ORDER BY d.org_id LIMIT 1)
    FROM waiting w WHERE w.org_id IS NOT NULL
  ), lost AS (
    SELECT d.id, d.org_id, d.weight, d.not_before FROM documents d WHERE d.status = 'processing' AND d.lease_until < clock_timestamp()
      AND d.deaths + 1 < deadly AND coalesce(d.deadline > clock_timestamp(), true) AND pg_postmaster_start_time() < clock_timestamp() - lease
    ORDER BY d.lease_until LIMIT 100
  ), open AS (
    SELECT l.* FROM lost l WHERE l.org_id <> ALL (coalesce(passed, '{}'))
    UNION ALL -- the first one is among the oldest or the shortest, but for queues where it hardly matters which one is
    SELECT q.* FROM waiting w CROSS JOIN LATERAL (
      (SELECT d.id, d.org_id, d.weight, d.not_before FROM documents d WHERE d.status = 'queued' AND d.org_id = w.org_id
        AND d.not_before <= clock_timestamp() AND coalesce(d.deadline > clock_timestamp(), true) ORDER BY d.not_before, d.id LIMIT most + 20)
      UNION
      (SELECT d.id, d.org_id, d.weight, d.not_before FROM documents d WHERE d.status = 'queued' AND d.org_id = w.org_id
        AND d.not_before <= clock_timestamp() AND coalesce(d.deadline > clock_timestamp(), true) ORDER BY d.weight, d.not_before, d.id LIMIT most + 20)
    ) q WHERE w.org_id <> ALL (coalesce(passed, '{}'))
  ), aged AS (
    SELECT o.id, o.org_id, o.weight / (1 + greatest(extract(epoch FROM clock_timestamp() - o.not_before), 0)) AS turn FROM open o
  ), placed AS (
    SELECT a.id, a.turn, row_number() OVER (PARTITION BY a.org_id ORDER BY a.turn, a.id) + (SELECT count(*) FROM documents h
      WHERE h.status = 'processing' AND h.org_id = a.org_id AND h.lease_until >= clock_timestamp()) AS place
    FROM aged a
  )
  SELECT array_agg(p.id) INTO taken FROM (SELECT id FROM placed ORDER BY place, CASE WHEN lot THEN random() ELSE turn END LIMIT most) p;
  SELECT array_agg(h.id) INTO taken FROM (
    SELECT d.id FROM documents d WHERE d.id = ANY (taken) AND coalesce(d.deadline > clock_timestamp(), true)
      AND (d.status = 'queued' AND d.not_before <= clock_timestamp() OR d.status = 'processing' AND d.lease_until < clock_timestamp())
    ORDER BY d.id FOR UPDATE SKIP LOCKED) h;
  DELETE FROM document_vectors v WHERE v.document_id = ANY (taken);
  DELETE FROM document_chunks c WHERE c.document_id = ANY (taken);
  RETURN QUERY UPDATE documents d SET status = 'processing', fence = d.fence + 1, attempts = d.attempts + 1,
      deaths = d.deaths + (d.status = 'processing')::int, lease_until = clock_timestamp() + lease, pages_done = 0, chunks = 0,
      claimed_at = clock_timestamp(), deadline = coalesce(d.deadline, clock_timestamp() + interval '1 hour'), updated_at = clock_timestamp()
    WHERE d.id = ANY (taken) RETURNING d.*;
END $$;
-- +goose StatementEnd

-- Documents that will not become ready by themselves: those in hand whose workers died too often or too late, those that were put back and
-- whose time is over, and those that have waited for an hour in which no worker had, or took, a document of anybody's: there is none.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION hopeless_documents(most bigint, lease interval, deadly int) RETURNS TABLE (id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  IF NOT EXISTS (SELECT FROM documents d WHERE d.claimed_at > clock_timestamp() - interval '1 hour')
    AND NOT EXISTS (SELECT FROM documents d WHERE d.status = 'processing' AND d.lease_until >= clock_timestamp()) THEN
    RETURN QUERY SELECT d.id, d.org_id FROM documents d WHERE d.status = 'queued' AND d.deadline IS NULL
      AND d.not_before <= clock_timestamp() - interval '1 hour' ORDER BY d.not_before LIMIT most;
  END IF;
  RETURN QUERY
  (SELECT d.id, d.org_id FROM documents d WHERE d.status = 'queued' AND d.deadline <= clock_timestamp() ORDER BY d.deadline LIMIT most)
  UNION ALL
  (SELECT d.id, d.org_id FROM documents d WHERE d.status = 'processing' AND d.lease_until < clock_timestamp()
    AND (d.deaths + 1 >= deadly OR d.deadline <= clock_timestamp()) AND pg_postmaster_start_time() < clock_timestamp() - lease
  ORDER BY d.lease_until LIMIT most);
END $$;
-- +goose StatementEnd

-- Documents of an organization that are not ready and may have chunks.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION unready_documents(org text) RETURNS text[]
  LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RETURN ARRAY(SELECT d.id FROM documents d WHERE d.org_id = org AND d.status = 'processing'
    UNION ALL SELECT d.id FROM documents d WHERE d.org_id = org AND d.error_code = 'deleting');
END $$;
-- +goose StatementEnd

-- Those of some lexemes that an organization's documents have, and in how many chunks they are: the organization, what its lexemes begin
-- with, the lexemes. A term that is not counted may be among the rest of a document's, and is then as rare as can be.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION known_terms(org text, prefix text, lexemes text[]) RETURNS TABLE (term text, chunks int)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
DECLARE
  unread text[];
  rest text[];
  query tsquery;
BEGIN
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
-- +goose StatementEnd

-- Those chunks of an organization that have some of a few words, the best ones first: the organization, what its lexemes begin with, the
-- number of each lexeme's word, the lexemes and how much each counts; documents (none: all) and the metadata that they have; how many. Words
-- whose numbers are negative are such that a chunk must have one of them, if there are any.
--
-- A word counts for more, the fewer chunks have it, and the more often it is in a chunk, less each further time (Okapi BM25); in headings
-- it counts twice. Nothing is given to who has not named the organization, as for the tables. Which chunks are looked at is up to the rarest words: chunks that have one of them, then those that
-- have all of the others, then some that have two. So what a search costs does not grow with how frequent its words are.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION search_terms(org text, prefix text, word int[], lexemes text[], weights real[], ids text[], wanted jsonb, most int)
  RETURNS TABLE (chunk_id bigint, score float8)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  near CONSTANT int := 1500; -- so many chunks are looked at at once
  total float8 := (SELECT t.chunks FROM knowledge_terms t WHERE t.org_id = org AND t.term = '');
  queries tsquery[]; -- of the words, the rarest first
  counts float8[];
  worths float8[];
  often float8[];
  musts bool[];
  must tsquery;
  chosen text[]; -- documents
  unread text[] := unready_documents(org);
  held bigint;
  rare int := 0; -- how many words are
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

  -- The first words are written out, for a query per chunk would take three times as long.
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
-- +goose StatementEnd

-- Where chunks are that fit a query: the organization, the query, one that they must fit too, documents (null: all), how many at most.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- search_terms where words that no chunk of the organization's has are searched by terms that are like them; nothing when there
-- are no such words. texts are the words as they were written, by their numbers from 0.
-- +goose StatementBegin
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
  IF (org = ANY (parley_organizations())) IS NOT TRUE THEN -- as in search_terms
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
  -- Too short ones are like too many, and a number that is like another one is another number.
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
-- +goose StatementEnd

-- Those chunks of an organization whose vectors of a model are nearest to one: the organization, the model, the vector's signs and
-- itself; documents (none: all) and the metadata that they have; how many are compared, and how many given. Of more those are compared
-- whose signs differ least. Without pgvector all that are to be compared are given, with their vectors and without scores.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION search_vectors(org text, made_by text, sought bit varying, vec real[], ids text[], wanted jsonb, compared int, most int)
  RETURNS TABLE (chunk_id bigint, score float8, numbers bytea)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  chosen text[];
  unread text[] := unready_documents(org);
  nearest bigint[];
  home text; -- the schema of pgvector, as it is written
BEGIN
  IF (org = ANY (parley_organizations())) IS NOT TRUE THEN -- as in search_terms
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
  -- Looked for at each search: an administrator may install or drop it whenever. It takes no vectors of more dimensions than these.
  SELECT quote_ident(n.nspname) INTO home FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
  WHERE e.extname = 'vector' AND has_schema_privilege(n.oid, 'USAGE') AND cardinality(vec) <= 16000;
  IF home IS NULL THEN
    RETURN QUERY SELECT v.chunk_id, NULL::float8, array_send(v.vector) FROM document_vectors v JOIN documents d ON d.id = v.document_id
      WHERE v.chunk_id = ANY (nearest) AND v.org_id = org AND d.org_id = org AND d.status = 'ready';
    RETURN;
  END IF;
  -- The dot product, as SearchVectors computes it; <#> gives it negated.
  RETURN QUERY EXECUTE replace('SELECT n.chunk_id, -n.distance, NULL::bytea FROM (
      SELECT v.chunk_id, v.vector::HOME.vector OPERATOR(HOME.<#>) $2::HOME.vector AS distance
      FROM document_vectors v JOIN documents d ON d.id = v.document_id
      WHERE v.chunk_id = ANY ($1) AND v.org_id = $4 AND d.org_id = $4 AND d.status = ''ready'') n ORDER BY n.distance, n.chunk_id LIMIT $3',
      'HOME', home)
    USING nearest, vec, most, org;
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['claim_documents(int, interval, int, text[])', 'hopeless_documents(bigint, interval, int)',
    'known_terms(text, text, text[])', 'search_terms(text, text, int[], text[], real[], text[], jsonb, int)', 'search_similar(text, text, int[], text[], text[], text[], jsonb, int)',
    'search_vectors(text, text, bit varying, real[], text[], jsonb, int, int)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS search_vectors, search_similar, search_terms, search_places, known_terms, unready_documents, hopeless_documents, claim_documents;
DROP INDEX IF EXISTS documents_going;
DROP TABLE IF EXISTS indexed_documents, knowledge_terms, document_vectors, document_chunks;

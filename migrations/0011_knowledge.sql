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
-- Every search would read all that waits to be put in its place.
CREATE INDEX IF NOT EXISTS document_chunks_terms ON document_chunks USING gin (terms) WITH (fastupdate = off);

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

-- In how many chunks of an organization's ready documents a term is; of the term '', how many chunks there are. Whoever
-- changes any locks that one first.
CREATE TABLE IF NOT EXISTS knowledge_terms (
  org_id  text COLLATE "C" NOT NULL,
  term    text COLLATE "C" NOT NULL,
  chunks  int NOT NULL,
  PRIMARY KEY (org_id, term)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS knowledge_terms_alike ON knowledge_terms USING gin (org_id, term gin_trgm_ops);

-- Documents whose terms are counted in knowledge_terms.
CREATE TABLE IF NOT EXISTS indexed_documents (
  document_id  text COLLATE "C" PRIMARY KEY,
  org_id       text COLLATE "C" NOT NULL,
  chunks       int NOT NULL
);

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

-- Takes documents into hand: how many, until when, and how many workers one may cost. Each goes to the organization that has the fewest in hand, of its documents
-- to the oldest. What a dead attempt has written goes. Whoever claims waits for each other, so that each sees what the other took.
-- A lease that has run out is over, but not within a lease of the server's start: see lost_runs.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION claim_documents(most int, lease interval, deadly int) RETURNS SETOF documents
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  taken text[];
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('claim_documents', 0));
  WITH RECURSIVE waiting AS (
    (SELECT d.org_id FROM documents d WHERE d.status = 'queued' ORDER BY d.org_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.org_id FROM documents d WHERE d.status = 'queued' AND d.org_id > w.org_id ORDER BY d.org_id LIMIT 1)
    FROM waiting w WHERE w.org_id IS NOT NULL
  ), lost AS (
    SELECT d.id, d.org_id FROM documents d WHERE d.status = 'processing' AND d.lease_until < clock_timestamp() AND d.deaths + 1 < deadly
      AND d.deadline > clock_timestamp() AND pg_postmaster_start_time() < clock_timestamp() - lease
    ORDER BY d.lease_until LIMIT 100
  ), open AS (
    SELECT l.org_id, l.id FROM lost l
    UNION ALL
    SELECT w.org_id, q.id FROM waiting w CROSS JOIN LATERAL (
      SELECT d.id FROM documents d WHERE d.status = 'queued' AND d.org_id = w.org_id AND d.not_before <= clock_timestamp()
        AND d.deadline > clock_timestamp() ORDER BY d.id LIMIT most) q WHERE w.org_id IS NOT NULL
  ), placed AS (
    SELECT o.id, row_number() OVER (PARTITION BY o.org_id ORDER BY o.id) + (SELECT count(*) FROM documents h
      WHERE h.status = 'processing' AND h.org_id = o.org_id AND h.lease_until >= clock_timestamp()) AS place
    FROM open o
  )
  SELECT array_agg(p.id) INTO taken FROM (SELECT id FROM placed ORDER BY place, random() LIMIT most) p; -- of organizations with as many in hand, whichever
  SELECT array_agg(h.id) INTO taken FROM (
    SELECT d.id FROM documents d WHERE d.id = ANY (taken) AND d.deadline > clock_timestamp()
      AND (d.status = 'queued' AND d.not_before <= clock_timestamp() OR d.status = 'processing' AND d.lease_until < clock_timestamp())
    ORDER BY d.id FOR UPDATE SKIP LOCKED) h;
  DELETE FROM document_vectors v WHERE v.document_id = ANY (taken);
  DELETE FROM document_chunks c WHERE c.document_id = ANY (taken);
  RETURN QUERY UPDATE documents d SET status = 'processing', fence = d.fence + 1, attempts = d.attempts + 1,
      deaths = d.deaths + (d.status = 'processing')::int, lease_until = clock_timestamp() + lease, pages_done = 0, chunks = 0,
      updated_at = clock_timestamp()
    WHERE d.id = ANY (taken) RETURNING d.*;
END $$;
-- +goose StatementEnd

-- Documents that will not become ready by themselves: those in hand whose workers died too often or too late, and those that nobody read in time.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION hopeless_documents(most bigint, lease interval, deadly int) RETURNS TABLE (id text, org_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  (SELECT d.id, d.org_id FROM documents d WHERE d.status = 'queued' AND d.deadline <= clock_timestamp() ORDER BY d.deadline LIMIT most)
  UNION ALL
  (SELECT d.id, d.org_id FROM documents d WHERE d.status = 'processing' AND d.lease_until < clock_timestamp()
    AND (d.deaths + 1 >= deadly OR d.deadline <= clock_timestamp()) AND pg_postmaster_start_time() < clock_timestamp() - lease
  ORDER BY d.lease_until LIMIT most);
END $$;
-- +goose StatementEnd
-- SEARCH FUNCTIONS
GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['claim_documents(int, interval, int)', 'hopeless_documents(bigint, interval, int)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS hopeless_documents, claim_documents;
DROP TABLE IF EXISTS indexed_documents, knowledge_terms, document_vectors, document_chunks;

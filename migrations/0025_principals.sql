-- +goose NO TRANSACTION
-- +goose Up
-- Keys that succeed each other by rotation are one principal: sessions and idempotency keys of chat go on with the successor. Binaries of the
-- release before run meanwhile. They do not write the new column, so null means that a key is the first of its lineage.

-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE api_keys ADD COLUMN IF NOT EXISTS lineage text COLLATE "C"; -- the first key of the rotations that led to this one; null: itself
END $$;
-- +goose StatementEnd

-- parley_key_credentials of 0007_accounts.sql, with the lineage of each key.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION parley_key_credentials_2(ids text[])
RETURNS TABLE (login_id text, key_id text, lineage text, org_id text, user_id text, secret_hash bytea, expires_at timestamptz, orgs text[],
  roles text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT ''::text, k.id, coalesce(k.lineage, k.id), k.org_id, u.user_id, k.secret_hash, k.expires_at, s.orgs, s.roles
    FROM api_keys k CROSS JOIN LATERAL (SELECT CASE WHEN k.scope = 'user' THEN k.user_id END AS user_id) u
    LEFT JOIN LATERAL (SELECT array_agg(m.org_id ORDER BY m.created_at, m.org_id) AS orgs,
      array_agg(m.role ORDER BY m.created_at, m.org_id) AS roles FROM memberships m WHERE m.user_id = u.user_id) s ON true
    WHERE k.id = ANY (ids) AND k.revoked_at IS NULL;
END $$;
-- +goose StatementEnd

-- known_terms of 0011_knowledge.sql, which reads nothing unless the transaction acts for the organization. The release before calls it in such
-- transactions only.
-- +goose StatementBegin
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
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
REVOKE EXECUTE ON FUNCTION parley_key_credentials_2(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_key_credentials_2(text[]) TO parley_app;
ALTER FUNCTION parley_key_credentials_2(text[]) OWNER TO parley_system;
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS parley_key_credentials_2;
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
ALTER TABLE api_keys DROP COLUMN IF EXISTS lineage;

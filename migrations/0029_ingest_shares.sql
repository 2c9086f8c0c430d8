-- +goose NO TRANSACTION
-- +goose Up
-- Documents are claimed by what their organizations owe. As in 0004_tenancy.sql, while binaries of the release before work: a new function,
-- and everything can be repeated.

-- Takes documents into hand: claim_documents of 0011_knowledge.sql, with debts and a bound. A document of an organization that owes less comes
-- first: owing are organizations, and debts what each owes; the others owe nothing. Of those that owe the same the order is as there.
-- Documents of a greater weight than heaviest are not taken.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION claim_documents_2(most int, lease interval, deadly int, passed text[], owing text[],
    debts bigint[], heaviest bigint) RETURNS SETOF documents
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
      AND d.weight <= heaviest
    ORDER BY d.lease_until LIMIT 100
  ), open AS (
    SELECT l.* FROM lost l WHERE l.org_id <> ALL (coalesce(passed, '{}'))
    UNION ALL -- the first one is among the oldest or the shortest, but for queues where it hardly matters which one is
    SELECT q.* FROM waiting w CROSS JOIN LATERAL (
      (SELECT d.id, d.org_id, d.weight, d.not_before FROM documents d WHERE d.status = 'queued' AND d.org_id = w.org_id
        AND d.not_before <= clock_timestamp() AND coalesce(d.deadline > clock_timestamp(), true)
        AND d.weight <= heaviest ORDER BY d.not_before, d.id LIMIT most + 20)
      UNION
      (SELECT d.id, d.org_id, d.weight, d.not_before FROM documents d WHERE d.status = 'queued' AND d.org_id = w.org_id
        AND d.not_before <= clock_timestamp() AND coalesce(d.deadline > clock_timestamp(), true)
        AND d.weight <= heaviest ORDER BY d.weight, d.not_before, d.id LIMIT most + 20)
    ) q WHERE w.org_id <> ALL (coalesce(passed, '{}'))
  ), aged AS (
    SELECT o.id, o.org_id, o.weight / (1 + greatest(extract(epoch FROM clock_timestamp() - o.not_before), 0)) AS turn FROM open o
  ), placed AS (
    SELECT a.id, a.turn, coalesce((SELECT max(u.debt) FROM unnest(owing, debts) AS u (org_id, debt) WHERE u.org_id = a.org_id), 0) AS debt,
      row_number() OVER (PARTITION BY a.org_id ORDER BY a.turn, a.id) + (SELECT count(*) FROM documents h
      WHERE h.status = 'processing' AND h.org_id = a.org_id AND h.lease_until >= clock_timestamp()) AS place
    FROM aged a
  )
  SELECT array_agg(p.id) INTO taken FROM (SELECT id FROM placed ORDER BY debt, place, CASE WHEN lot THEN random() ELSE turn END LIMIT most) p;
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

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure := 'claim_documents_2(int, interval, int, text[], text[], bigint[], bigint)';
BEGIN
  EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
  EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
  EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS claim_documents_2;

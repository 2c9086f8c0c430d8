-- Claims up to `most` documents for a lease and returns them. It skips documents in whose
-- processing at least `deadly` workers have died, documents of an organization in `passed`, and
-- documents heavier than `heaviest`.
--
-- Documents of the organization with the smallest debt come first: `owing` contains the
-- organizations with a debt, and `debts` their debts. Among organizations with equal debts, the one
-- with the fewest documents in progress comes first. Within an organization, the document with the
-- smallest ratio of weight to waiting time comes first. Among organizations with equally many
-- documents in progress, the choice is by that ratio half of the time and random otherwise. So
-- light documents come before heavy ones, and no organization starves.
--
-- Rows that a dead worker has written for a claimed document are deleted. Claims wait for each
-- other, so that each sees the documents that others have claimed. For leases after a start of the
-- server see lost_runs.
--
-- Called by knowledgedb.ClaimDocuments. Locks the chosen documents in the order of their ids, and
-- skips those that another transaction has locked. The column deaths of a document counts its
-- claims after the death of the previous worker.
CREATE OR REPLACE FUNCTION claim_documents(most int, lease interval, deadly int, passed text[], owing text[],
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
    UNION ALL -- only the oldest and the lightest documents are compared; except in unusual queues, the first document is among them
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
REVOKE EXECUTE ON FUNCTION claim_documents FROM PUBLIC;
GRANT EXECUTE ON FUNCTION claim_documents TO parley_app;
ALTER FUNCTION claim_documents OWNER TO parley_system;

-- Returns up to `most` documents that will not become ready by themselves. These are claimed
-- documents whose workers died too often, and claimed or requeued documents whose deadline has
-- passed. They also include documents that have waited for an hour in which no worker claimed or
-- held any document.
--
-- Called by knowledgedb.EndDocuments, which locks each document, checks it again and lets it fail.
-- Takes no row locks. deadly is the number of deaths after which a document fails.
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
REVOKE EXECUTE ON FUNCTION hopeless_documents FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hopeless_documents TO parley_app;
ALTER FUNCTION hopeless_documents OWNER TO parley_system;

-- Deletes the contents among $2, of the organizations $1, that no file and no document refers to. A
-- first statement locks the contents, and a second one looks for references. A reference that
-- another transaction adds meanwhile is either visible to the second statement, or waits for the
-- lock and then finds that the content is gone. Only 256 MiB are deleted in one call, because no
-- statement may take long; the sweeper deletes the rest.
--
-- The check is a function of the schema. Therefore an older binary that knows fewer kinds of
-- references deletes no content that is still referred to.
--
-- Called by blobdb.RemoveUnlinkedBlobs and by steps_take_effects. Locks the contents in the order
-- of their keys until the end of the transaction.
CREATE OR REPLACE FUNCTION remove_unlinked_blobs(text[], bytea[]) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE
  orgs text[];
  hashes bytea[];
  larger bool[];
BEGIN
  IF coalesce(cardinality($2), 0) = 0 THEN
    RETURN;
  END IF;
  PERFORM FROM blobs b WHERE (b.org_id, b.hash) IN (SELECT * FROM unnest($1, $2)) ORDER BY b.org_id, b.hash FOR UPDATE;
  SELECT array_agg(o.org_id), array_agg(o.hash), array_agg(o.until - o.bytes >= 268435456) INTO orgs, hashes, larger
  FROM (SELECT b.org_id, b.hash, b.bytes, sum(b.bytes) OVER (ORDER BY b.org_id, b.hash) AS until FROM blobs b
    WHERE (b.org_id, b.hash) IN (SELECT * FROM unnest($1, $2))
      AND NOT EXISTS (SELECT 1 FROM files f WHERE f.org_id = b.org_id AND f.hash = b.hash)
      AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.org_id = b.org_id AND d.hash = b.hash)) o;
  DELETE FROM blob_chunks c USING unnest(orgs, hashes, larger) AS u (org_id, hash, later)
    WHERE c.org_id = u.org_id AND c.hash = u.hash AND NOT u.later;
  DELETE FROM blobs b USING unnest(orgs, hashes, larger) AS u (org_id, hash, later)
    WHERE b.org_id = u.org_id AND b.hash = u.hash AND NOT u.later;
  UPDATE blobs b SET sweep_after = now() FROM unnest(orgs, hashes, larger) AS u (org_id, hash, later)
    WHERE b.org_id = u.org_id AND b.hash = u.hash AND u.later;
END $$;

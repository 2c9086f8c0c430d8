-- Returns the data needed to check a delivery to a hook, and the senders that were verified within
-- `known`. Returns nothing if the hook was deleted, or if its API key has ended or belongs to
-- another organization. previous_secret is null if the previous secret is no longer accepted.
--
-- The secrets are encrypted. Called by hookdb.ReceivingHook, whose results ingresses cache for a
-- few seconds. Runs as parley_system, because the sender of a delivery names only the hook. Takes
-- no row locks.
DROP FUNCTION IF EXISTS receiving_hook(text, interval);
CREATE OR REPLACE FUNCTION receiving_hook(hook text, known interval)
  RETURNS TABLE (id text, org_id text, name text, agent_id text, key_id text, source text, secret text, previous_secret text,
    previous_until timestamptz, signature_header text, delivery_id_header text, message_template text, filter json, coalescing json,
    enabled boolean, created_at timestamptz, updated_at timestamptz, key_scope text, key_user_id text, senders text[],
    output_schema json)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT h.id, h.org_id, h.name, h.agent_id, h.key_id, h.source, h.secret,
    CASE WHEN h.previous_until > clock_timestamp() THEN h.previous_secret END, CASE WHEN h.previous_until > clock_timestamp() THEN h.previous_until END,
    h.signature_header, h.delivery_id_header, h.message_template, h.filter, h.coalescing, h.enabled, h.created_at, h.updated_at, k.scope, k.user_id,
    ARRAY(SELECT s.client FROM hook_senders s WHERE s.hook_id = h.id AND s.verified_at > clock_timestamp() - known), h.output_schema
  FROM hooks h JOIN api_keys k ON k.id = h.key_id AND k.org_id = h.org_id
  WHERE h.id = hook AND h.deleted_at IS NULL AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp());
END $$;
REVOKE EXECUTE ON FUNCTION receiving_hook FROM PUBLIC;
GRANT EXECUTE ON FUNCTION receiving_hook TO parley_app;
ALTER FUNCTION receiving_hook OWNER TO parley_system;

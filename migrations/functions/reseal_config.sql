-- Replaces sealed values of a version of an agent. The rest of the version stays unchanged, because
-- the service has no right to change versions. Returns the version, or nothing if a value has
-- changed in the meantime.
--
-- olds and news contain the values in the same order. The function fails if a value does not have
-- the form of a sealed value. Called by sealdb when the encryption key is replaced. Locks the
-- version's row.
CREATE OR REPLACE FUNCTION reseal_config(org text, target text, of_version int, olds text[], news text[]) RETURNS SETOF int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  present text;
BEGIN
  IF (org = ANY (parley_organizations())) IS NOT TRUE THEN
    RETURN;
  END IF;
  IF cardinality(olds) IS DISTINCT FROM cardinality(news)
    OR EXISTS (SELECT FROM unnest(olds || news) AS s (value) WHERE (s.value ~ '^v1\.[0-9a-f]{8}\.[A-Za-z0-9_-]+$') IS NOT TRUE) THEN
    RAISE EXCEPTION 'these are no sealed values' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT c.config::text INTO present FROM agent_configs c
    WHERE c.target_id = target AND c.version = of_version AND c.org_id = org FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  FOR n IN 1 .. cardinality(olds) LOOP
    IF strpos(present, '"' || olds[n] || '"') = 0 THEN
      RETURN;
    END IF;
    present := replace(present, '"' || olds[n] || '"', '"' || news[n] || '"');
  END LOOP;
  UPDATE agent_configs c SET config = present::json WHERE c.target_id = target AND c.version = of_version AND c.org_id = org;
  RETURN NEXT of_version;
END $$;
REVOKE EXECUTE ON FUNCTION reseal_config FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reseal_config TO parley_app;
ALTER FUNCTION reseal_config OWNER TO parley_system;

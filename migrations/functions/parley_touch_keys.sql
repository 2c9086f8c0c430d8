-- Sets the last use of API keys. Rows are locked in the order of their ids, as everywhere, so two ingresses cannot
-- deadlock.
--
-- A stored time is never replaced by an earlier one. Called by accountdb.Touch at intervals, with
-- the keys that were used since the previous call.
CREATE OR REPLACE FUNCTION parley_touch_keys(ids text[], used timestamptz[]) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, l.at)
    FROM (SELECT a.id, u.at FROM unnest(ids, used) AS u (id, at)
          JOIN api_keys a ON a.id = u.id ORDER BY a.id FOR UPDATE OF a) l
    WHERE k.id = l.id
$$;
REVOKE EXECUTE ON FUNCTION parley_touch_keys FROM PUBLIC;
GRANT EXECUTE ON FUNCTION parley_touch_keys TO parley_app;
ALTER FUNCTION parley_touch_keys OWNER TO parley_system;

-- Returns the prefix of an organization's lexemes in run_terms. Each word of a run is a lexeme with
-- this prefix. In addition, a run has lexemes for the periods of time to which it belongs: prefix,
-- @, and the first 4, 5 or 6 characters of the run's id after run_. These characters are the run's
-- time in base 32, and stand for a period of 12 days, 9 hours or 17 minutes. A search reads the
-- entries of one period, which are few however many runs an organization has.
--
-- Prefixes of different organizations may be equal, which costs only time: searches also compare
-- org_id. Called by index_runs and search_runs.
CREATE OR REPLACE FUNCTION run_prefix(org text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT left(encode(sha256(convert_to($1, 'UTF8')), 'base64'), 4)
$$;

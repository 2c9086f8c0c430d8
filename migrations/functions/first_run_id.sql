-- Returns the smallest id that a run accepted at the given time can have. An id begins with its
-- time in milliseconds, in 10 base-32 digits.
--
-- Ids of runs are compared as texts, with the collation C. Called by budget_seed.
CREATE OR REPLACE FUNCTION first_run_id(at timestamptz) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT 'run_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', ((floor(extract(epoch FROM at) * 1000)::bigint >> (5 * (9 - i))) & 31)::int + 1, 1),
    '' ORDER BY i) FROM generate_series(0, 9) AS i
$$;

-- Returns the bucket of a duration. The upper bound of each bucket is 5 % above that of the
-- previous one. The first bucket has the durations below 1 ms.
--
-- Called by runs_leave_numbers and by queries of usagedb. The bucket of null is null.
CREATE OR REPLACE FUNCTION took_bucket(ms bigint) RETURNS int
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN ms < 1 THEN 1 ELSE 2 + floor(ln(ms::float8) / ln(1.05::float8))::int END
$$;

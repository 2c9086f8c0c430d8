-- Returns a histogram of durations from their buckets. The histogram is an array of counts, indexed
-- by bucket, as in past_usage.took.
--
-- Each element is the number of times that its bucket occurs. Called by runs_leave_numbers.
CREATE OR REPLACE FUNCTION count_took(buckets int[]) RETURNS int[]
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  counts int[] := '{}';
  bucket int;
BEGIN
  FOREACH bucket IN ARRAY coalesce(buckets, '{}') LOOP
    counts[bucket] := coalesce(counts[bucket], 0) + 1;
  END LOOP;
  RETURN counts;
END $$;

-- Adds two histograms of durations. A histogram is an array of counts, indexed by bucket, as in
-- past_usage.took.
--
-- Returns the sum. A missing element of an array counts as 0. Called by runs_leave_numbers.
CREATE OR REPLACE FUNCTION add_took(counts int[], others int[]) RETURNS int[]
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  FOR bucket IN coalesce(array_lower(others, 1), 1) .. coalesce(array_upper(others, 1), 0) LOOP
    IF others[bucket] > 0 THEN
      counts[bucket] := coalesce(counts[bucket], 0) + others[bucket];
    END IF;
  END LOOP;
  RETURN counts;
END $$;

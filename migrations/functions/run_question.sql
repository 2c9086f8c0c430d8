-- Returns the message of a run's input, at most 20,000 characters, and the names of its
-- attachments. Returns null if the input has more than 1 MiB, or if PostgreSQL cannot read it
-- because it contains U+0000 or half a surrogate pair.
--
-- Called by index_runs. The exception block costs a subtransaction, and keeps one unreadable run
-- from blocking the index.
CREATE OR REPLACE FUNCTION run_question(input json) RETURNS text
  LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF pg_column_size(input) > 1048576 THEN
    RETURN NULL;
  END IF;
  RETURN concat_ws(' ', left(input->>'message', 20000),
    (SELECT string_agg(f.attachment->>'name', ' ') FROM json_array_elements(input->'attachments') AS f (attachment)));
EXCEPTION WHEN data_exception OR feature_not_supported THEN
  RETURN NULL;
END $$;

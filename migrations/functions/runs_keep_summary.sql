-- Stores the summary of a large result in a separate column, because a list would need 10 ms per
-- MiB to read the result.
--
-- Results of up to 64 KiB are summarized when they are read. An erasure sets the result to null,
-- and the trigger then removes the summary.
CREATE OR REPLACE FUNCTION runs_keep_summary() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  NEW.summary := run_summary(NEW.result);
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER runs_keep_summary BEFORE UPDATE OF result ON runs
  FOR EACH ROW WHEN (octet_length(NEW.result) > 65536 OR NEW.summary IS NOT NULL) EXECUTE FUNCTION runs_keep_summary();

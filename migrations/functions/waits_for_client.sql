-- Reports whether a run with the given required action waits for results of tools that its client
-- executes. A run with any other action waits for a person's decision. PostgreSQL cannot read a
-- field of a value that contains U+0000. The function therefore compares the beginning of the text,
-- which is the kind of the action.
--
-- For a null action, the result is false. Called by notify_run_waits, and by queries of rundb and
-- overviewdb.
CREATE OR REPLACE FUNCTION waits_for_client(action json) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(starts_with($1::text, '{"kind":"client_tools"'), false)
$$;

-- Reports whether a required action is that the client of a run sends results of its tools. Any other action is a decision of a
-- person. The service writes the kind first. PostgreSQL cannot read a field of a value that contains U+0000, so this compares text.
CREATE OR REPLACE FUNCTION waits_for_client(action json) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(starts_with($1::text, '{"kind":"client_tools"'), false)
$$;

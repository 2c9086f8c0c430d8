-- Returns the ids of up to `most` finished runs of an organization whose question, answer and automation's name together
-- contain all words of body, the newest first. The ids are at least `since` and less than `before`. The other arguments
-- filter as in the list of runs; null or '' means all. Returns nothing unless the transaction acts for the organization.
--
-- The search walks back through periods of time in which the organization has runs. After a period without a match it
-- tries a longer one, and after one with a match a shorter one. If the search takes longer than `patience`, the last row
-- is the position that it has reached, with found = false.
--
-- Called by rundb.SearchRuns. Takes no row locks. patience limits the time only between periods, so
-- a call may take somewhat longer.
CREATE OR REPLACE FUNCTION search_runs(org text, body text, before text, since text, principals text[], agent text, session text,
    automation text, kind text, wanted text, earliest timestamptz, latest timestamptz, most int, patience interval)
  RETURNS TABLE (run_id text, found boolean)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  began CONSTANT timestamptz := clock_timestamp();
  prefix CONSTANT text := run_prefix(org);
  words text;
  query tsquery;
  hits text[];
  newest text;
  period text;
  digits int := 6;
  n int := 0;
  more int;
BEGIN
  IF (org = ANY (parley_organizations())) IS NOT TRUE THEN
    RETURN;
  END IF;
  SELECT string_agg('''' || replace(replace(prefix || w, '\', '\\'), '''', '''''') || '''', ' & ') INTO words
    FROM (SELECT DISTINCT w FROM run_words(body) w LIMIT 32) AS d;
  IF words IS NULL THEN
    RETURN;
  END IF;
  before := coalesce(nullif(before, ''), 'run_~'); -- after all ids
  LOOP
    newest := (SELECT r.id FROM runs r WHERE r.org_id = org AND r.id < before AND r.id >= since ORDER BY r.id DESC LIMIT 1);
    EXIT WHEN newest IS NULL;
    period := left(newest, 4 + digits);
    query := (words || ' & ''' || prefix || '@' || substr(period, 5) || '''')::tsquery;
    IF digits = 6 THEN
      hits := ARRAY(SELECT t.run_id FROM run_terms t WHERE t.terms @@ query AND t.org_id = org);
      RETURN QUERY SELECT h.id, true
        FROM (SELECT u AS id FROM unnest(hits) u WHERE u COLLATE "C" < before AND u COLLATE "C" >= since ORDER BY u COLLATE "C" DESC) h
          CROSS JOIN LATERAL (SELECT * FROM runs r WHERE r.id = h.id OFFSET 0) r -- along the primary key
        WHERE r.org_id = org AND r.result IS NOT NULL AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
          AND (principals IS NULL OR r.principal = ANY (principals)) AND (agent = '' OR r.agent_id = agent)
          AND (session = '' OR r.session_id = session) AND (automation = '' OR r.automation_id = automation)
          AND (kind = '' OR r.trigger_type = kind) AND (wanted = '' OR r.status = wanted)
          AND (earliest IS NULL OR r.created_at >= earliest) AND (latest IS NULL OR r.created_at < latest)
        ORDER BY h.id COLLATE "C" DESC LIMIT most - n;
      GET DIAGNOSTICS more = ROW_COUNT;
      n := n + more;
      EXIT WHEN n >= most;
      before := period;
      IF more = 0 THEN
        digits := 5;
      END IF;
    ELSIF (SELECT count(*) FROM run_terms t WHERE t.terms @@ query AND t.org_id = org) > 0 THEN
      digits := digits + 1;
    ELSE
      before := period;
      digits := greatest(digits - 1, 4);
    END IF;
    IF clock_timestamp() > began + patience AND before <> 'run_~' THEN
      RETURN QUERY SELECT rpad(before, 30, '0'), false;
      RETURN;
    END IF;
  END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION search_runs FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search_runs TO parley_app;
ALTER FUNCTION search_runs OWNER TO parley_system;

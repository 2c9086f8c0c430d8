-- +goose NO TRANSACTION
-- +goose Up
-- What waits and what is in hand, for those who operate the service. Nothing that stands is changed.

-- Runs by lane and state, and since when the oldest of them is there; the lane ingest is that of documents. waiting: nothing but a
-- place is missing. dispatched: rung for, and not claimed. held: not before a time of its own. Run ids rise with time, so the least is the
-- oldest.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION queue_depth()
  RETURNS TABLE (lane text, state text, runs bigint, oldest timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH counted AS (
    SELECT o.lane,
      CASE WHEN o.status <> 'queued' THEN o.status WHEN o.dispatched THEN 'dispatched'
        WHEN o.not_before > clock_timestamp() THEN 'held' ELSE 'waiting' END AS state,
      count(*) AS runs, min(o.run_id) AS first
    FROM open_runs o GROUP BY 1, 2
  )
  SELECT c.lane, c.state, c.runs, r.created_at FROM counted c LEFT JOIN runs r ON r.id = c.first
  UNION ALL
  SELECT 'ingest', CASE WHEN d.status <> 'queued' THEN 'running' WHEN d.not_before > clock_timestamp() THEN 'held' ELSE 'waiting' END,
    count(*), min(coalesce(d.claimed_at, d.created_at))
  FROM documents d WHERE d.status = 'queued' OR d.status = 'processing' GROUP BY 1, 2;
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
REVOKE EXECUTE ON FUNCTION queue_depth() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION queue_depth() TO parley_app;
ALTER FUNCTION queue_depth() OWNER TO parley_system;
REVOKE CREATE ON SCHEMA public FROM parley_system;
-- +goose Down
DROP FUNCTION IF EXISTS queue_depth();

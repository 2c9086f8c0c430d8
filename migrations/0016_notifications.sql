-- +goose NO TRANSACTION
-- +goose Up
-- What organizations have the service tell them: where to, and what is on its way there. As in 0013_traces.sql, while binaries of the
-- release before work: new tables, triggers that tell of what those binaries do, too, and everything can be repeated.

-- failures counts the attempts in a row that failed, since failing_since. Secrets are sealed; the one before holds until previous_until.
CREATE TABLE IF NOT EXISTS notification_endpoints (
  id               text COLLATE "C" PRIMARY KEY,
  org_id           text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  url              text NOT NULL,
  description      text NOT NULL,
  events           text[] NOT NULL,
  agent_id         text COLLATE "C", -- whose runs are told of; null: of all
  enabled          boolean NOT NULL,
  disabled_reason  text,             -- null: the service did not
  disabled_at      timestamptz,
  secret           text NOT NULL,
  previous_secret  text,
  previous_until   timestamptz,
  failures         int NOT NULL DEFAULT 0,
  failing_since    timestamptz,
  last_success_at  timestamptz,
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  deleted_at       timestamptz       -- the row goes behind its notifications
);
CREATE INDEX IF NOT EXISTS notification_endpoints_org ON notification_endpoints (org_id, id);
CREATE INDEX IF NOT EXISTS notification_endpoints_told ON notification_endpoints (org_id) WHERE enabled;
CREATE INDEX IF NOT EXISTS notification_endpoints_open ON notification_endpoints (id) WHERE enabled AND deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS notification_endpoints_deleted ON notification_endpoints (deleted_at) WHERE deleted_at IS NOT NULL;

-- One event on its way to one endpoint. source is what data is rendered of before the first attempt, where the event itself is not
-- told in full: of a run that waits its action, of a document its row. Of a run neither stays longer than the run itself.
CREATE TABLE IF NOT EXISTS notifications (
  id               text COLLATE "C" PRIMARY KEY,
  org_id           text COLLATE "C" NOT NULL,
  endpoint_id      text COLLATE "C" NOT NULL,
  event            text NOT NULL,
  subject_id       text COLLATE "C" NOT NULL, -- the run or document
  n                bigint NOT NULL,           -- tells events of one kind about the same subject apart
  source           text,
  data             text,
  status           text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
  attempts         int NOT NULL DEFAULT 0,
  fence            bigint NOT NULL DEFAULT 0,
  lease_until      timestamptz, -- while an attempt is made
  next_attempt_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  response_status  int,
  error            text,
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  delivered_at     timestamptz
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX IF NOT EXISTS notifications_once ON notifications (subject_id, endpoint_id, event, n);
CREATE INDEX IF NOT EXISTS notifications_org ON notifications (org_id, id);
CREATE INDEX IF NOT EXISTS notifications_undelivered ON notifications (org_id, id) WHERE status <> 'delivered';
CREATE INDEX IF NOT EXISTS notifications_endpoint ON notifications (endpoint_id, id);
CREATE INDEX IF NOT EXISTS notifications_due ON notifications (endpoint_id, next_attempt_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS notifications_pings ON notifications (endpoint_id, next_attempt_at) WHERE status = 'pending' AND event = 'ping';
CREATE INDEX IF NOT EXISTS notifications_held ON notifications (endpoint_id) WHERE lease_until IS NOT NULL;
CREATE INDEX IF NOT EXISTS notifications_sweep ON notifications (created_at);

-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['notification_endpoints', 'notifications'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]))', name);
  END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE, DELETE ON notification_endpoints, notifications TO parley_app;
GRANT SELECT, UPDATE, DELETE ON notification_endpoints, notifications TO parley_system;

-- A fresh id with a prefix, as package id makes them: 26 digits of base32 that hold a UUIDv7. Of a random UUID all that is
-- random in both is taken, and the variant.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION new_type_id(prefix text) RETURNS text
  LANGUAGE plpgsql AS $$
DECLARE
  bits varbit := B'00' || trunc(extract(epoch FROM clock_timestamp()) * 1000)::bigint::bit(48) || B'0111'
    || substring(('x' || replace(gen_random_uuid()::text, '-', ''))::bit(128) FROM 53);
  made text := prefix || '_';
BEGIN
  FOR i IN 0 .. 25 LOOP
    made := made || substr('0123456789abcdefghjkmnpqrstvwxyz', substring(bits FROM i * 5 + 1 FOR 5)::bit(5)::int + 1, 1);
  END LOOP;
  RETURN made;
END $$;
-- +goose StatementEnd

-- Notes the ends of runs, whoever brought them about: each end takes the open row away, in the transaction that writes the result.
-- Of runs that were erased there is none. Where nobody is to be told, one look at an index is all that it costs.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION notify_runs_ended() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM notification_endpoints e WHERE e.enabled AND e.org_id = ANY (ARRAY(SELECT DISTINCT g.org_id FROM gone g))) THEN
    RETURN NULL;
  END IF;
  INSERT INTO notifications (id, org_id, endpoint_id, event, subject_id, n, data)
  SELECT new_type_id('evt'), r.org_id, e.id, k.event, r.id, 0, r.result
  FROM gone g JOIN runs r ON r.id = g.run_id
    CROSS JOIN LATERAL (SELECT CASE WHEN r.status = 'completed' THEN 'run.completed' WHEN r.status IN ('failed', 'timed_out') THEN 'run.failed' END AS event) k
    JOIN notification_endpoints e ON e.org_id = r.org_id AND e.enabled AND k.event = ANY (e.events) AND (e.agent_id IS NULL OR e.agent_id = r.agent_id)
  WHERE r.result IS NOT NULL
  ORDER BY r.id, e.id
  ON CONFLICT (subject_id, endpoint_id, event, n) DO NOTHING;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION notify_run_waits() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO notifications (id, org_id, endpoint_id, event, subject_id, n, source)
  SELECT new_type_id('evt'), NEW.org_id, e.id, 'run.requires_action', NEW.run_id, NEW.fence, NEW.required_action::text
  FROM notification_endpoints e
  WHERE e.org_id = NEW.org_id AND e.enabled AND 'run.requires_action' = ANY (e.events) AND (e.agent_id IS NULL OR e.agent_id = NEW.agent_id)
  ORDER BY e.id
  ON CONFLICT (subject_id, endpoint_id, event, n) DO NOTHING;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION notify_document_read() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO notifications (id, org_id, endpoint_id, event, subject_id, n, source)
  SELECT new_type_id('evt'), NEW.org_id, e.id, k.event, NEW.id, NEW.fence, to_jsonb(NEW)::text
  FROM (SELECT 'knowledge.' || NEW.status AS event) k
    JOIN notification_endpoints e ON e.org_id = NEW.org_id AND e.enabled AND k.event = ANY (e.events)
  ORDER BY e.id
  ON CONFLICT (subject_id, endpoint_id, event, n) DO NOTHING;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- What is erased or deleted is told of no more. What is removed because its time is over leaves no words: what is still to be told of it
-- has failed, unless it is in somebody's hand just now, who says how that ended.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION unnotify_run_erased() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM notifications WHERE subject_id = NEW.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION unnotify_document_deleted() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM notifications WHERE subject_id = OLD.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION unnotify_runs_removed() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  UPDATE notifications n SET data = NULL, source = NULL,
    status = CASE WHEN u.over THEN 'failed' ELSE n.status END,
    error = CASE WHEN u.over THEN 'The run''s retention was over before it could be told.' ELSE n.error END
  FROM (SELECT p.id, p.status = 'pending' AND (p.lease_until > clock_timestamp()) IS NOT TRUE AS over FROM notifications p
    WHERE p.subject_id = ANY (ARRAY(SELECT g.id FROM gone g)) ORDER BY p.id FOR UPDATE) u
  WHERE n.id = u.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- Takes up to so many notifications that are due in hand, for a lease: of each endpoint no more at a time than the last number says, one
-- of those whose attempts fail, and first of those endpoints that have the fewest in hand. An endpoint that is slow or away
-- has the others wait for nothing. Of one that is disabled only tests are sent. One at a time claims, so that nobody counts wrongly. Of
-- runs that are over by their retention it gives no word.
--
-- The first parts skip from endpoint to endpoint, however many notifications wait for each: from one for which something waits to the
-- next one that is enabled, and from that to the next one for which something waits, so that those that were disabled are passed over;
-- then those that are tested.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION claim_notifications(most int, lease interval, at_once int)
  RETURNS TABLE (id text, org_id text, endpoint_id text, event text, subject_id text, source text, data text, fence bigint, attempts int,
    created_at timestamptz, url text, secret text, previous_secret text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('parley.notifications', 0));
  RETURN QUERY
  WITH RECURSIVE waiting AS (
    SELECT ''::text COLLATE "C" AS id
    UNION ALL
    SELECT (SELECT n.endpoint_id FROM notifications n WHERE n.status = 'pending' AND n.endpoint_id >= (
        SELECT e.id FROM notification_endpoints e WHERE e.enabled AND e.deleted_at IS NULL AND e.id > w.id ORDER BY e.id LIMIT 1)
      ORDER BY n.endpoint_id LIMIT 1)
    FROM waiting w WHERE w.id IS NOT NULL
  ), tested AS (
    SELECT ''::text COLLATE "C" AS id
    UNION ALL
    SELECT (SELECT n.endpoint_id FROM notifications n WHERE n.status = 'pending' AND n.event = 'ping' AND n.endpoint_id > w.id
      ORDER BY n.endpoint_id LIMIT 1)
    FROM tested w WHERE w.id IS NOT NULL
  ), open AS MATERIALIZED (
    SELECT e.id, e.enabled, h.held, CASE WHEN e.failures > 0 THEN 1 ELSE at_once END - h.held AS places
    FROM (SELECT id FROM waiting UNION SELECT id FROM tested) w JOIN notification_endpoints e ON e.id = w.id AND e.deleted_at IS NULL
      CROSS JOIN LATERAL (SELECT count(*) AS held FROM notifications n WHERE n.endpoint_id = e.id AND n.lease_until > clock_timestamp()) h
  ), due AS MATERIALIZED (
    SELECT d.id FROM open o CROSS JOIN LATERAL (
      SELECT t.id, t.next_attempt_at, row_number() OVER (ORDER BY t.next_attempt_at) AS turn FROM (
        (SELECT n.id, n.next_attempt_at FROM notifications n
          WHERE o.enabled AND n.endpoint_id = o.id AND n.status = 'pending' AND n.next_attempt_at <= clock_timestamp()
          ORDER BY n.next_attempt_at LIMIT greatest(o.places, 0))
        UNION ALL
        (SELECT n.id, n.next_attempt_at FROM notifications n
          WHERE NOT o.enabled AND n.endpoint_id = o.id AND n.status = 'pending' AND n.event = 'ping' AND n.next_attempt_at <= clock_timestamp()
          ORDER BY n.next_attempt_at LIMIT greatest(o.places, 0))) t) d
    ORDER BY o.held + d.turn, d.next_attempt_at LIMIT most
  ), mine AS MATERIALIZED (
    SELECT n.id FROM notifications n WHERE n.id = ANY (ARRAY(SELECT d.id FROM due d))
      AND n.status = 'pending' AND n.next_attempt_at <= clock_timestamp() ORDER BY n.id FOR UPDATE SKIP LOCKED
  ), taken AS (
    UPDATE notifications n SET attempts = n.attempts + 1, fence = n.fence + 1, lease_until = clock_timestamp() + lease,
      next_attempt_at = clock_timestamp() + lease
    FROM mine WHERE n.id = mine.id
    RETURNING n.*
  )
  SELECT t.id, t.org_id, t.endpoint_id, t.event, t.subject_id, CASE WHEN k.there THEN t.source END, CASE WHEN k.there THEN t.data END,
    t.fence, t.attempts, t.created_at, e.url, e.secret, CASE WHEN e.previous_until > clock_timestamp() THEN e.previous_secret END
  FROM taken t JOIN notification_endpoints e ON e.id = t.endpoint_id
    CROSS JOIN LATERAL (SELECT t.event NOT LIKE 'run.%' OR EXISTS (SELECT FROM runs r
      WHERE r.id = t.subject_id AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())) AS there) k;
END $$;
-- +goose StatementEnd

-- Removes notifications that are older than so much, and those of deleted endpoints, up to so many of either, then endpoints
-- of which nothing is left. Says how many notifications went at most.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION prune_notifications(most bigint, kept interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  old bigint;
  orphaned bigint;
BEGIN
  DELETE FROM notifications p WHERE p.ctid = ANY (ARRAY(
    SELECT n.ctid FROM notifications n WHERE n.created_at < now() - kept ORDER BY n.created_at LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS old = ROW_COUNT;
  DELETE FROM notifications p WHERE p.ctid = ANY (ARRAY(
    SELECT n.ctid FROM notification_endpoints e JOIN notifications n ON n.endpoint_id = e.id
    WHERE e.deleted_at IS NOT NULL LIMIT most FOR UPDATE OF n SKIP LOCKED));
  GET DIAGNOSTICS orphaned = ROW_COUNT;
  DELETE FROM notification_endpoints e WHERE e.deleted_at < now() - interval '1 minute'
    AND NOT EXISTS (SELECT FROM notifications n WHERE n.endpoint_id = e.id);
  RETURN greatest(old, orphaned);
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['claim_notifications(int, interval, int)', 'prune_notifications(bigint, interval)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;

-- Each table by itself, and no longer than each takes. Erasing is all that sets a run's input and leaves no result: see 0014_voice.sql.
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS notify_runs_ended ON open_runs;
  CREATE TRIGGER notify_runs_ended AFTER DELETE ON open_runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION notify_runs_ended();
  DROP TRIGGER IF EXISTS notify_run_waits ON open_runs;
  CREATE TRIGGER notify_run_waits AFTER UPDATE ON open_runs
    FOR EACH ROW WHEN (NEW.status = 'requires_action' AND OLD.status <> 'requires_action') EXECUTE FUNCTION notify_run_waits();
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS notify_document_read ON documents;
  CREATE TRIGGER notify_document_read AFTER UPDATE ON documents
    FOR EACH ROW WHEN (NEW.status IN ('ready', 'failed') AND OLD.status <> NEW.status AND NEW.error_code IS DISTINCT FROM 'deleting')
    EXECUTE FUNCTION notify_document_read();
  DROP TRIGGER IF EXISTS unnotify_document_deleted ON documents;
  CREATE TRIGGER unnotify_document_deleted AFTER DELETE ON documents
    FOR EACH ROW EXECUTE FUNCTION unnotify_document_deleted();
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS unnotify_run_erased ON runs;
  CREATE TRIGGER unnotify_run_erased AFTER UPDATE OF input ON runs
    FOR EACH ROW WHEN (NEW.status IS NOT NULL AND NEW.result IS NULL) EXECUTE FUNCTION unnotify_run_erased();
  DROP TRIGGER IF EXISTS unnotify_runs_removed ON runs;
  CREATE TRIGGER unnotify_runs_removed AFTER DELETE ON runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION unnotify_runs_removed();
END $$;
-- +goose StatementEnd
-- +goose Down
DROP TRIGGER IF EXISTS notify_runs_ended ON open_runs;
DROP TRIGGER IF EXISTS notify_run_waits ON open_runs;
DROP TRIGGER IF EXISTS notify_document_read ON documents;
DROP TRIGGER IF EXISTS unnotify_document_deleted ON documents;
DROP TRIGGER IF EXISTS unnotify_run_erased ON runs;
DROP TRIGGER IF EXISTS unnotify_runs_removed ON runs;
DROP FUNCTION IF EXISTS notify_runs_ended, notify_run_waits, notify_document_read, unnotify_run_erased, unnotify_document_deleted,
  unnotify_runs_removed, claim_notifications, prune_notifications, new_type_id;
DROP TABLE IF EXISTS notifications, notification_endpoints;

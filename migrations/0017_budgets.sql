-- +goose NO TRANSACTION
-- +goose Up
-- Budgets, and what runs came to by their keys and automations. As in 0013_traces.sql, while binaries of the release before work: new
-- tables, functions changed in place only where they then do more of the same, and everything can be repeated.

-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE runs ADD COLUMN IF NOT EXISTS sandbox_ms bigint; -- of its calls of codeExecution; null: it made none
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  ALTER TABLE past_usage ADD COLUMN IF NOT EXISTS sandbox_ms bigint NOT NULL DEFAULT 0;
END $$;
-- +goose StatementEnd

-- past_usage by the day, and by keys and automations as well; empty: none.
CREATE TABLE IF NOT EXISTS past_usage_by (
  org_id         text COLLATE "C" NOT NULL,
  day            date NOT NULL,
  target_id      text COLLATE "C" NOT NULL,
  key_id         text COLLATE "C" NOT NULL,
  automation_id  text COLLATE "C" NOT NULL,
  runs           bigint NOT NULL,
  completed      bigint NOT NULL,
  failed         bigint NOT NULL,
  cancelled      bigint NOT NULL,
  timed_out      bigint NOT NULL,
  input_tokens   bigint NOT NULL,
  output_tokens  bigint NOT NULL,
  cost_micros    bigint NOT NULL,
  sandbox_ms     bigint NOT NULL,
  PRIMARY KEY (org_id, day, target_id, key_id, automation_id)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS past_usage_by_sweep ON past_usage_by (day);

-- A budget counts the runs of its organization, of an agent, by a key or of an automation. most is in millionths of the currency, tokens,
-- runs or milliseconds. subjects are the subject and the keys that it stood for before they were rotated.
CREATE TABLE IF NOT EXISTS budgets (
  id          text COLLATE "C" PRIMARY KEY,
  org_id      text COLLATE "C" NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
  scope       text NOT NULL CHECK (scope IN ('organization', 'agent', 'key', 'automation')),
  subject_id  text,
  subjects    text[] NOT NULL DEFAULT '{}',
  metric      text NOT NULL CHECK (metric IN ('costMicros', 'tokens', 'runs', 'sandboxSeconds')),
  period      text NOT NULL CHECK (period IN ('day', 'month')),
  most        bigint NOT NULL CHECK (most >= 0),
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((scope = 'organization') = (subject_id IS NULL))
);
CREATE UNIQUE INDEX IF NOT EXISTS budgets_one ON budgets (org_id, scope, (coalesce(subject_id, '')), metric, period);

-- What of a budget is used in a period, and held for calls under way. A period has a row from the first time that somebody counts.
CREATE TABLE IF NOT EXISTS budget_counts (
  budget_id  text COLLATE "C" NOT NULL REFERENCES budgets (id) ON DELETE CASCADE,
  starts_on  date NOT NULL,
  org_id     text COLLATE "C" NOT NULL,
  used       bigint NOT NULL,
  reserved   bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (budget_id, starts_on)
) WITH (fillfactor = 50);

-- What a call under way holds of each budget that its run falls under, by the attempt that makes it.
CREATE TABLE IF NOT EXISTS budget_holds (
  id          text COLLATE "C" NOT NULL,
  budget_id   text COLLATE "C" NOT NULL REFERENCES budgets (id) ON DELETE CASCADE,
  starts_on   date NOT NULL,
  org_id      text COLLATE "C" NOT NULL,
  run_id      text COLLATE "C" NOT NULL,
  fence       bigint NOT NULL,
  amount      bigint NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (id, budget_id)
);
CREATE INDEX IF NOT EXISTS budget_holds_budget ON budget_holds (budget_id);
CREATE INDEX IF NOT EXISTS budget_holds_age ON budget_holds (created_at);

-- +goose StatementBegin
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['past_usage_by', 'budgets', 'budget_counts', 'budget_holds'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS system ON %I', name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', name);
    EXECUTE format('CREATE POLICY system ON %I TO parley_system USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY tenant ON %I TO parley_app USING (org_id COLLATE "default" = ANY ((SELECT parley_organizations())::text[])) '
      'WITH CHECK (org_id = ANY ((SELECT parley_organizations())::text[]))', name);
  END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE ON past_usage_by TO parley_app;
GRANT SELECT, UPDATE, DELETE ON past_usage_by TO parley_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON budgets, budget_counts, budget_holds TO parley_app;
GRANT SELECT, UPDATE, DELETE ON budget_counts, budget_holds TO parley_system;

-- What was removed before this file, of which no key and no automation is known; only once, for what is removed from then on is counted below.
INSERT INTO past_usage_by SELECT org_id, (hour AT TIME ZONE 'UTC')::date AS day, target_id, '', '', sum(runs)::bigint, sum(completed)::bigint,
  sum(failed)::bigint, sum(cancelled)::bigint, sum(timed_out)::bigint, sum(input_tokens)::bigint, sum(output_tokens)::bigint,
  sum(cost_micros)::bigint, 0 FROM past_usage WHERE NOT EXISTS (SELECT FROM past_usage_by) GROUP BY org_id, day, target_id
  ON CONFLICT DO NOTHING;

-- runs_leave_numbers of 0013_traces.sql, which leaves past_usage_by, too.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_leave_numbers() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO past_usage AS p (org_id, hour, target_id, runs, completed, failed, cancelled, timed_out, input_tokens, output_tokens, cost_micros, took,
    sandbox_ms)
  SELECT g.org_id, date_trunc('hour', g.created_at, 'UTC') AS hour, coalesce(g.agent_id, g.template_id) AS target_id, count(*),
    count(*) FILTER (WHERE g.status = 'completed'), count(*) FILTER (WHERE g.status = 'failed'),
    count(*) FILTER (WHERE g.status = 'cancelled'), count(*) FILTER (WHERE g.status = 'timed_out'),
    coalesce(sum(g.input_tokens), 0)::bigint, coalesce(sum(g.output_tokens), 0)::bigint, coalesce(sum(g.cost_micros), 0)::bigint,
    count_took(array_agg(took_bucket(run_took(g.created_at, g.finished_at))) FILTER (WHERE g.finished_at IS NOT NULL)),
    coalesce(sum(g.sandbox_ms), 0)::bigint
  FROM gone g GROUP BY g.org_id, hour, target_id ORDER BY g.org_id, hour, target_id
  ON CONFLICT (org_id, hour, target_id) DO UPDATE SET runs = p.runs + excluded.runs, completed = p.completed + excluded.completed,
    failed = p.failed + excluded.failed, cancelled = p.cancelled + excluded.cancelled, timed_out = p.timed_out + excluded.timed_out,
    input_tokens = p.input_tokens + excluded.input_tokens, output_tokens = p.output_tokens + excluded.output_tokens,
    cost_micros = p.cost_micros + excluded.cost_micros, took = add_took(p.took, excluded.took), sandbox_ms = p.sandbox_ms + excluded.sandbox_ms;
  INSERT INTO past_usage_by AS p
  SELECT g.org_id, (g.created_at AT TIME ZONE 'UTC')::date AS day, coalesce(g.agent_id, g.template_id) AS target_id, coalesce(g.key_id, '') AS key_id,
    coalesce(g.automation_id, '') COLLATE "C" AS automation_id, count(*),
    count(*) FILTER (WHERE g.status = 'completed'), count(*) FILTER (WHERE g.status = 'failed'),
    count(*) FILTER (WHERE g.status = 'cancelled'), count(*) FILTER (WHERE g.status = 'timed_out'),
    coalesce(sum(g.input_tokens), 0)::bigint, coalesce(sum(g.output_tokens), 0)::bigint, coalesce(sum(g.cost_micros), 0)::bigint,
    coalesce(sum(g.sandbox_ms), 0)::bigint
  FROM gone g GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, day, target_id, key_id, automation_id) DO UPDATE SET runs = p.runs + excluded.runs,
    completed = p.completed + excluded.completed, failed = p.failed + excluded.failed, cancelled = p.cancelled + excluded.cancelled,
    timed_out = p.timed_out + excluded.timed_out, input_tokens = p.input_tokens + excluded.input_tokens,
    output_tokens = p.output_tokens + excluded.output_tokens, cost_micros = p.cost_micros + excluded.cost_micros,
    sandbox_ms = p.sandbox_ms + excluded.sandbox_ms;
  INSERT INTO past_automations AS p (org_id, automation_id, target_id, trigger_type, run_id, status, created_at, finished_at)
  SELECT DISTINCT ON (g.org_id, g.automation_id COLLATE "C")
    g.org_id, g.automation_id, coalesce(g.agent_id, g.template_id), g.trigger_type, g.id, g.status, g.created_at, g.finished_at
  FROM gone g WHERE g.automation_id IS NOT NULL AND g.status IS NOT NULL ORDER BY g.org_id, g.automation_id COLLATE "C", g.id DESC
  ON CONFLICT (org_id, automation_id) DO UPDATE SET target_id = excluded.target_id, trigger_type = excluded.trigger_type,
    run_id = excluded.run_id, status = excluded.status, created_at = excluded.created_at, finished_at = excluded.finished_at
    WHERE p.run_id < excluded.run_id;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- finish_runs of 0005_functions.sql, and the milliseconds that each run's code took; 0 for none. Of a run that was saved they are
-- written behind its end: its row is locked by then, and no other order of locks is needed.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION finish_runs_2(text[], bigint[], text[], text[], text[], int[], bigint[], bigint[], bigint[], timestamptz[], timestamptz[],
    text[], timestamptz[], bigint[], int[], int[], int[], text[], bigint[])
  RETURNS TABLE (run_id text, org_id text, place boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  saved text[];
  orgs text[];
  places boolean[];
BEGIN
  SELECT array_agg(f.run_id), array_agg(f.org_id), array_agg(f.place) INTO saved, orgs, places
  FROM finish_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) f;
  UPDATE runs r SET sandbox_ms = u.ms FROM unnest($1, $19) AS u (id, ms)
  WHERE u.ms > 0 AND r.id = u.id AND u.id = ANY (saved);
  RETURN QUERY SELECT * FROM unnest(saved, orgs, places);
END $$;
-- +goose StatementEnd

-- Whether a run falls under a budget.
CREATE OR REPLACE FUNCTION budget_covers(scope text, subjects text[], agent text, key text, automation text) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE scope WHEN 'organization' THEN true WHEN 'agent' THEN agent = ANY (subjects) WHEN 'key' THEN key = ANY (subjects)
    ELSE automation = ANY (subjects) END IS TRUE
$$;

-- The day on which the period that an instant is in began, by UTC.
CREATE OR REPLACE FUNCTION budget_start(period text, at timestamptz) RETURNS date
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT date_trunc(period, at AT TIME ZONE 'UTC')::date $$;

-- The least that an id of a run can be which was made then: ids begin with their time, in milliseconds, in 10 digits of base 32.
CREATE OR REPLACE FUNCTION first_run_id(at timestamptz) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT 'run_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', ((floor(extract(epoch FROM at) * 1000)::bigint >> (5 * (9 - i))) & 31)::int + 1, 1),
    '' ORDER BY i) FROM generate_series(0, 9) AS i
$$;

-- What of a metric a run's step came to.
CREATE OR REPLACE FUNCTION step_amount(metric text, step json) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(CASE metric WHEN 'costMicros' THEN (step -> 'turn' ->> 'costMicros')::bigint
    WHEN 'tokens' THEN coalesce((step -> 'turn' -> 'usage' ->> 'inputTokens')::bigint, 0) + coalesce((step -> 'turn' -> 'usage' ->> 'outputTokens')::bigint, 0)
    WHEN 'sandboxSeconds' THEN CASE WHEN step -> 'tool' -> 'call' ->> 'name' = 'codeExecution' THEN (step -> 'tool' -> 'call' ->> 'durationMs')::bigint END
  END, 0)
$$;

-- What the runs that were accepted since a day have used of a budget: those that ended, by their rows, also of those that were removed,
-- and others as far as their journals tell.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION budget_seed(b budgets, since date) RETURNS bigint
  LANGUAGE plpgsql STABLE AS $$
DECLARE
  begins timestamptz := since::timestamp AT TIME ZONE 'UTC';
  from_id text := first_run_id(begins - interval '1 hour');
  total numeric;
BEGIN
  SELECT coalesce(sum(n), 0) INTO total FROM (
    SELECT sum(CASE b.metric WHEN 'costMicros' THEN coalesce(r.cost_micros, 0) WHEN 'runs' THEN 1 WHEN 'sandboxSeconds' THEN coalesce(r.sandbox_ms, 0)
      ELSE coalesce(r.input_tokens, 0) + coalesce(r.output_tokens, 0) END) AS n
    FROM runs r WHERE r.org_id = b.org_id AND r.id >= from_id AND r.created_at >= begins
      AND budget_covers(b.scope, b.subjects, r.agent_id, r.key_id, r.automation_id)
    UNION ALL SELECT sum(CASE b.metric WHEN 'costMicros' THEN p.cost_micros WHEN 'runs' THEN p.runs WHEN 'sandboxSeconds' THEN p.sandbox_ms
      ELSE p.input_tokens + p.output_tokens END)
    FROM past_usage_by p WHERE p.org_id = b.org_id AND p.day >= since
      AND budget_covers(b.scope, b.subjects, p.target_id, nullif(p.key_id, ''), nullif(p.automation_id, ''))
    UNION ALL SELECT sum(step_amount(b.metric, s.step))
    FROM open_runs o JOIN runs r ON r.id = o.run_id JOIN steps s ON s.run_id = o.run_id
    WHERE o.org_id = b.org_id AND o.attempts > 0 AND b.metric <> 'runs' AND r.created_at >= begins
      AND budget_covers(b.scope, b.subjects, r.agent_id, r.key_id, r.automation_id)) parts;
  RETURN least(total, 9223372036854775807)::bigint;
END $$;
-- +goose StatementEnd

-- Gives a budget a count for the period that began on a day, unless it has one, and says whether it made it. That of the period before
-- stays: somebody may be counting in it yet.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION open_budget(b budgets, since date) RETURNS boolean
  LANGUAGE plpgsql AS $$
DECLARE
  made boolean;
BEGIN
  IF EXISTS (SELECT FROM budget_counts c WHERE c.budget_id = b.id AND c.starts_on = since) THEN
    RETURN false;
  END IF;
  INSERT INTO budget_counts (budget_id, starts_on, org_id, used) VALUES (b.id, since, b.org_id, budget_seed(b, since)) ON CONFLICT DO NOTHING;
  made := FOUND;
  DELETE FROM budget_counts c WHERE c.budget_id = b.id AND c.reserved = 0
    AND c.starts_on < budget_start(b.period, (since - 1)::timestamp AT TIME ZONE 'UTC');
  RETURN made;
END $$;
-- +goose StatementEnd

-- Holds amounts of metrics for a call: organization, run, fence, hold, metrics, amounts. Either all budgets that the run falls under have
-- room, and are given as held, or those that lack it are given, and nothing is held.
-- Counts are locked in one order, here and wherever several are.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION reserve_budgets(org text, run text, attempt bigint, hold text, metrics text[], amounts bigint[])
  RETURNS TABLE (budget_id text, held boolean)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  acting text := parley_act_for(ARRAY[org]);
  now_is timestamptz := clock_timestamp();
  b budgets;
  ids text[] := '{}';
  refused int;
BEGIN
  FOR b IN SELECT k.* FROM budgets k JOIN runs r ON r.id = run AND r.org_id = org
    WHERE k.org_id = org AND k.metric = ANY (metrics) AND budget_covers(k.scope, k.subjects, r.agent_id, r.key_id, r.automation_id)
    ORDER BY k.id
  LOOP
    PERFORM open_budget(b, budget_start(b.period, now_is));
    ids := ids || b.id::text;
  END LOOP;
  IF ids = '{}' THEN
    RETURN;
  END IF;
  PERFORM FROM budget_counts c JOIN budgets k ON k.id = c.budget_id
    WHERE c.budget_id = ANY (ids) AND c.starts_on = budget_start(k.period, now_is) ORDER BY c.budget_id FOR UPDATE OF c;
  RETURN QUERY SELECT k.id, false
    FROM budgets k JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric
    JOIN budget_counts c ON c.budget_id = k.id AND c.starts_on = budget_start(k.period, now_is)
    WHERE k.id = ANY (ids) AND (c.used::numeric + c.reserved + u.amount > k.most OR c.used >= k.most) ORDER BY k.id;
  GET DIAGNOSTICS refused = ROW_COUNT;
  IF refused > 0 THEN
    RETURN;
  END IF;
  INSERT INTO budget_holds (id, budget_id, starts_on, org_id, run_id, fence, amount)
    SELECT hold, k.id, budget_start(k.period, now_is), org, run, attempt, u.amount
    FROM budgets k JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric WHERE k.id = ANY (ids);
  UPDATE budget_counts c SET reserved = c.reserved + h.amount FROM budget_holds h
    WHERE h.id = hold AND c.budget_id = h.budget_id AND c.starts_on = h.starts_on;
  RETURN QUERY SELECT i, true FROM unnest(ids) AS i;
END $$;
-- +goose StatementEnd

-- Ends a hold: organization, run, hold, metrics, what of each was used. One that was settled before stays so. Budgets that were made while
-- the call went on count it, too; only they do when the hold is '', that of a call for which nothing was held.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION settle_budgets(org text, run text, hold text, metrics text[], amounts bigint[]) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE
  acting text := parley_act_for(ARRAY[org]);
  now_is timestamptz := clock_timestamp();
  holding text[] := ARRAY(SELECT h.budget_id FROM budget_holds h WHERE h.id = hold AND h.org_id = org);
  late text[] := '{}';
  b budgets;
BEGIN
  IF hold <> '' AND holding = '{}' THEN
    RETURN;
  END IF;
  FOR b IN SELECT k.* FROM budgets k JOIN runs r ON r.id = run AND r.org_id = org
    JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric AND u.amount > 0
    WHERE k.org_id = org AND k.id <> ALL (holding) AND budget_covers(k.scope, k.subjects, r.agent_id, r.key_id, r.automation_id)
    ORDER BY k.id
  LOOP
    PERFORM open_budget(b, budget_start(b.period, now_is));
    late := late || b.id::text;
  END LOOP;
  PERFORM FROM budget_counts c WHERE c.budget_id = ANY (holding || late) ORDER BY c.budget_id, c.starts_on FOR UPDATE;
  IF hold <> '' AND NOT EXISTS (SELECT FROM budget_holds h WHERE h.id = hold) THEN
    RETURN; -- somebody else has settled it meanwhile
  END IF;
  UPDATE budget_counts c SET used = c.used + u.amount
  FROM budgets k JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric
  WHERE k.id = ANY (late) AND c.budget_id = k.id AND c.starts_on = budget_start(k.period, now_is);
  WITH gone AS (
    DELETE FROM budget_holds h WHERE h.id = hold AND h.org_id = org RETURNING h.budget_id, h.starts_on, h.amount
  )
  UPDATE budget_counts c SET reserved = c.reserved - g.amount, used = c.used + u.amount
  FROM gone g JOIN budgets k ON k.id = g.budget_id JOIN unnest(metrics, amounts) AS u (metric, amount) ON u.metric = k.metric
  WHERE c.budget_id = g.budget_id AND c.starts_on = g.starts_on;
END $$;
-- +goose StatementEnd

-- Ends up to so many holds of attempts that are over: what they may have used counts as used. It says how many there were.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION settle_lost_budgets(most bigint, age interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  n bigint := 0;
  h budget_holds;
BEGIN
  FOR h IN SELECT l.* FROM budget_holds l WHERE l.created_at < now() - age
    AND NOT EXISTS (SELECT FROM open_runs o WHERE o.run_id = l.run_id AND o.fence = l.fence AND o.status = 'running')
    ORDER BY l.budget_id, l.starts_on LIMIT most
  LOOP
    PERFORM FROM budget_counts c WHERE c.budget_id = h.budget_id AND c.starts_on = h.starts_on FOR UPDATE;
    DELETE FROM budget_holds l WHERE l.id = h.id AND l.budget_id = h.budget_id;
    IF FOUND THEN
      UPDATE budget_counts c SET reserved = c.reserved - h.amount, used = c.used + h.amount
      WHERE c.budget_id = h.budget_id AND c.starts_on = h.starts_on;
      n := n + 1;
    END IF;
  END LOOP;
  RETURN n;
END $$;
-- +goose StatementEnd

-- Counts runs that are accepted. A run that a budget of runs has no room for is refused, and whatever comes with it: the error, of which
-- the detail is the budget, says so, and its row is tried without the others.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_within_budgets() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  orgs text[] := ARRAY(SELECT DISTINCT f.org_id FROM fresh f);
  b budgets;
  n bigint;
  since date;
BEGIN
  IF NOT EXISTS (SELECT FROM budgets k WHERE k.org_id = ANY (orgs) AND k.metric = 'runs') THEN
    RETURN NULL;
  END IF;
  FOR b IN SELECT k.* FROM budgets k WHERE k.org_id = ANY (orgs) AND k.metric = 'runs' ORDER BY k.id LOOP
    SELECT count(*) INTO n FROM fresh f WHERE f.org_id = b.org_id AND budget_covers(b.scope, b.subjects, f.agent_id, f.key_id, f.automation_id);
    CONTINUE WHEN n = 0;
    since := budget_start(b.period, clock_timestamp());
    IF open_budget(b, since) THEN
      n := 0; -- they are in the table, and so among what it began with
    END IF;
    UPDATE budget_counts c SET used = c.used + n WHERE c.budget_id = b.id AND c.starts_on = since AND c.used + n <= b.most;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'a budget of runs is used up' USING ERRCODE = '23B01', DETAIL = b.id || ' ' || since;
    END IF;
  END LOOP;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- prune_past of 0013_traces.sql, of past_usage_by as well.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION prune_past_2(most bigint, usage_kept interval, automations_kept interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  days bigint;
BEGIN
  DELETE FROM past_usage_by p WHERE p.ctid = ANY (ARRAY(
    SELECT d.ctid FROM past_usage_by d WHERE d.day < (now() - usage_kept)::date ORDER BY d.day LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS days = ROW_COUNT;
  RETURN greatest(days, prune_past(most, usage_kept, automations_kept));
END $$;
-- +goose StatementEnd

GRANT CREATE ON SCHEMA public TO parley_system; -- for as long as this migration takes, as in those before
-- +goose StatementBegin
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['settle_lost_budgets(bigint, interval)', 'prune_past_2(bigint, interval, interval)']::regprocedure[] LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_app', f);
    EXECUTE format('ALTER FUNCTION %s OWNER TO parley_system', f);
  END LOOP;
END $$;
-- +goose StatementEnd
REVOKE CREATE ON SCHEMA public FROM parley_system;

-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  DROP TRIGGER IF EXISTS runs_within_budgets ON runs;
  CREATE TRIGGER runs_within_budgets AFTER INSERT ON runs REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION runs_within_budgets();
END $$;
-- +goose StatementEnd
-- +goose Down
DROP TRIGGER IF EXISTS runs_within_budgets ON runs;
DROP FUNCTION IF EXISTS runs_within_budgets, reserve_budgets, settle_budgets, settle_lost_budgets, prune_past_2, finish_runs_2, open_budget, budget_seed,
  step_amount, first_run_id, budget_start, budget_covers;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_leave_numbers() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO past_usage AS p (org_id, hour, target_id, runs, completed, failed, cancelled, timed_out, input_tokens, output_tokens, cost_micros, took)
  SELECT g.org_id, date_trunc('hour', g.created_at, 'UTC') AS hour, coalesce(g.agent_id, g.template_id) AS target_id, count(*),
    count(*) FILTER (WHERE g.status = 'completed'), count(*) FILTER (WHERE g.status = 'failed'),
    count(*) FILTER (WHERE g.status = 'cancelled'), count(*) FILTER (WHERE g.status = 'timed_out'),
    coalesce(sum(g.input_tokens), 0)::bigint, coalesce(sum(g.output_tokens), 0)::bigint, coalesce(sum(g.cost_micros), 0)::bigint,
    count_took(array_agg(took_bucket(run_took(g.created_at, g.finished_at))) FILTER (WHERE g.finished_at IS NOT NULL))
  FROM gone g GROUP BY g.org_id, hour, target_id ORDER BY g.org_id, hour, target_id
  ON CONFLICT (org_id, hour, target_id) DO UPDATE SET runs = p.runs + excluded.runs, completed = p.completed + excluded.completed,
    failed = p.failed + excluded.failed, cancelled = p.cancelled + excluded.cancelled, timed_out = p.timed_out + excluded.timed_out,
    input_tokens = p.input_tokens + excluded.input_tokens, output_tokens = p.output_tokens + excluded.output_tokens,
    cost_micros = p.cost_micros + excluded.cost_micros, took = add_took(p.took, excluded.took);
  INSERT INTO past_automations AS p (org_id, automation_id, target_id, trigger_type, run_id, status, created_at, finished_at)
  SELECT DISTINCT ON (g.org_id, g.automation_id COLLATE "C")
    g.org_id, g.automation_id, coalesce(g.agent_id, g.template_id), g.trigger_type, g.id, g.status, g.created_at, g.finished_at
  FROM gone g WHERE g.automation_id IS NOT NULL AND g.status IS NOT NULL ORDER BY g.org_id, g.automation_id COLLATE "C", g.id DESC
  ON CONFLICT (org_id, automation_id) DO UPDATE SET target_id = excluded.target_id, trigger_type = excluded.trigger_type,
    run_id = excluded.run_id, status = excluded.status, created_at = excluded.created_at, finished_at = excluded.finished_at
    WHERE p.run_id < excluded.run_id;
  RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TABLE IF EXISTS budget_holds, budget_counts, budgets, past_usage_by;
ALTER TABLE past_usage DROP COLUMN IF EXISTS sandbox_ms;
ALTER TABLE runs DROP COLUMN IF EXISTS sandbox_ms;

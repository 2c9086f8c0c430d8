-- +goose Up
-- A finished run that is stored with one insert: see insert_finished_runs.
CREATE TYPE late_run AS (id text, org_id text, agent_id text, config_version int, caller_kind text, principal text, session_id text,
  session_key bytea, trigger_type text, automation_id text, key text, key_hash bytea, fingerprint bytea, input json, retention int,
  key_id text, status text, result text, answer text, input_tokens bigint, output_tokens bigint, cost_micros bigint,
  created_at timestamptz, started_at timestamptz, finished_at timestamptz, expires_at timestamptz, end_n int);

-- +goose Down
DROP FUNCTION IF EXISTS insert_finished_runs(late_run[], text[]);
DROP TYPE late_run;

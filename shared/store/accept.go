package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// NewRun is a run to accept. Its id is made before it is sent here, so that a lost commit can be looked up.
type NewRun struct {
	ID             string
	OrganizationID string
	AgentID        string // exactly one of AgentID and TemplateID is set
	TemplateID     string
	CallerKind     domain.CallerKind
	Principal      string
	SessionID      string
	SessionKey     []byte // a hash over organization, target, principal and SessionID
	TriggerType    string
	AutomationID   string // empty: none
	IdempotencyKey string // empty: none, and then KeyHash is nil
	KeyHash        []byte
	Fingerprint    []byte
	Input          []byte // JSON of domain.Input
	Lane           domain.Lane
	Dedupe         string
	ReplyTo        string
	Traceparent    string
	Retention      time.Duration // 0: kept until its session is erased
	Deadline       time.Duration // from acceptance
}

// Accepted is what became of a NewRun: a run of its own, or the one that already holds its key, or an error.
type Accepted struct {
	Run      StoredRun
	Existing bool        // Run is the one that holds the key
	Job      *domain.Job // Run is new and within its organization's window: ring for it now
	Err      error
}

// The joins below are on single columns, and both checks hide from the planner that they are anti joins:
// otherwise it expects one row and compares each row of the batch with each other, or reads all open runs.
const acceptQuery = `
WITH batch AS MATERIALIZED (
  SELECT id, org_id, nullif(agent_id, '') AS agent_id, nullif(template_id, '') AS template_id, caller_kind, principal,
    session_id, session_key, trigger_type, nullif(automation_id, '') AS automation_id, nullif(key, '') AS key,
    nullif(key_hash, '') AS key_hash, nullif(fingerprint, '') AS fingerprint, input, lane, dedupe, reply_to, traceparent,
    retention, deadline, n
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::text[], $10::text[],
    $11::text[], $12::bytea[], $13::bytea[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::int[], $20::int[])
    WITH ORDINALITY AS u (id, org_id, agent_id, template_id, caller_kind, principal, session_id, session_key, trigger_type,
    automation_id, key, key_hash, fingerprint, input, lane, dedupe, reply_to, traceparent, retention, deadline, n)
), eligible AS MATERIALIZED (
  SELECT b.*, coalesce(a.version, t.version) AS config_version
  FROM batch b
  LEFT JOIN agents a ON a.id = b.agent_id AND a.org_id = b.org_id AND a.deleted_at IS NULL AND b.caller_kind = ANY (a.allowed_callers)
  LEFT JOIN templates t ON t.id = b.template_id
  WHERE coalesce(a.version, t.version) IS NOT NULL
    AND (NOT EXISTS (SELECT 1 FROM runs k WHERE k.idempotency_hash = b.key_hash)) IS NOT FALSE
), session AS (
  INSERT INTO sessions AS s (key, org_id, target_id, principal, session_id, last_seq)
  SELECT session_key, min(org_id), min(coalesce(agent_id, template_id)), min(principal), min(session_id), count(*)
  FROM eligible GROUP BY session_key ORDER BY session_key
  ON CONFLICT (key) DO UPDATE SET last_seq = s.last_seq + excluded.last_seq
  RETURNING s.key, s.ref, s.last_seq
), used AS MATERIALIZED (
  SELECT org_id, (SELECT count(*) FROM (SELECT 1 FROM open_runs d WHERE d.org_id = o.org_id AND d.dispatched LIMIT $21) counted) AS places
  FROM (SELECT DISTINCT org_id FROM eligible) o
), numbered AS (
  SELECT e.*, s.ref, row_number() OVER in_order AS turn,
    s.last_seq - count(*) OVER (PARTITION BY e.session_key) + row_number() OVER in_order AS seq
  FROM eligible e JOIN session s ON s.key = e.session_key
  WINDOW in_order AS (PARTITION BY e.session_key ORDER BY e.n)
), headed AS MATERIALIZED (
  SELECT *, turn = 1 AND (seq = 1 OR (SELECT p.seq FROM open_runs p WHERE p.session_ref = numbered.ref LIMIT 1) IS NULL) AS head FROM numbered
), placed AS MATERIALIZED (
  SELECT h.*, h.head AND u.places + count(*) FILTER (WHERE h.head) OVER (PARTITION BY h.org_id ORDER BY h.n) <= $21 AS dispatch
  FROM headed h JOIN used u ON u.org_id = h.org_id
), inserted AS (
  INSERT INTO runs (id, org_id, agent_id, template_id, config_version, session_ref, seq, session_id, principal, caller_kind,
    trigger_type, automation_id, idempotency_key, idempotency_hash, fingerprint, input, retention, sweep_after, created_at)
  SELECT id, org_id, agent_id, template_id, config_version, ref, seq, session_id, principal, caller_kind, trigger_type,
    automation_id, key, key_hash, fingerprint, input::json, retention,
    CASE WHEN retention > 0 THEN now() + make_interval(secs => retention) END, date_trunc('milliseconds', clock_timestamp())
  FROM placed ORDER BY key_hash, id
  ON CONFLICT (idempotency_hash) WHERE idempotency_hash IS NOT NULL DO NOTHING
  RETURNING id, created_at
), opened AS (
  INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dispatched_at,
    next_dispatch_at, dedupe, reply_to, traceparent, deadline)
  SELECT i.id, p.org_id, p.agent_id, p.ref, p.seq, p.lane, 'queued', p.dispatch, p.dispatch::int,
    CASE WHEN p.dispatch THEN clock_timestamp() END, CASE WHEN p.dispatch THEN clock_timestamp() + $22::interval END,
    p.dedupe, p.reply_to, p.traceparent, i.created_at + make_interval(secs => p.deadline)
  FROM inserted i JOIN placed p ON p.id = i.id
)
SELECT i.id AS run_id, i.created_at, p.dispatch AS dispatched FROM inserted i JOIN placed p ON p.id = i.id`

// firstRing is how long a dispatched run may stay queued before the sweeper suspects that its doorbell was lost.
const firstRing = "5 seconds"

// Accept inserts the runs in one transaction, so that after it returns without an error each accepted
// run is on disk. window is how many runs of an organization may be dispatched at a time. The answers
// are in the order of rows; an answer's Err is about that row alone. A returned error means that none
// of the runs exists, or (answer lost and not to be looked up) that it is not known.
func (s *Store) Accept(ctx context.Context, rows []NewRun, window int) ([]Accepted, error) {
	out, err := s.acceptOnce(ctx, rows, window)
	switch {
	case err == nil:
		return out, nil
	case isDisconnect(err) || violates(err, "runs_pkey"):
		return s.acceptedAfterAll(ctx, rows, window, err)
	case len(rows) > 1 && isBadData(err):
		return s.acceptHalves(ctx, rows, window)
	case isBadData(err):
		return []Accepted{{Err: fmt.Errorf("accepting run: %w", err)}}, nil
	}
	return nil, err
}

// acceptHalves finds a row that PostgreSQL rejects without failing its neighbours.
func (s *Store) acceptHalves(ctx context.Context, rows []NewRun, window int) ([]Accepted, error) {
	mid := len(rows) / 2
	first, err := s.Accept(ctx, rows[:mid], window)
	if err != nil {
		return nil, err
	}
	second, err := s.Accept(ctx, rows[mid:], window)
	if err != nil {
		for range rows[mid:] { // the first half is committed: only the second half has failed
			second = append(second, Accepted{Err: err})
		}
	}
	return append(first, second...), nil
}

// isBadData reports whether PostgreSQL refused a value (class 22) or a constraint did (class 23).
func isBadData(err error) bool {
	var pqErr *pq.Error
	return errors.As(err, &pqErr) && (pqErr.Code.Class() == "22" || pqErr.Code.Class() == "23")
}

func (s *Store) acceptOnce(ctx context.Context, rows []NewRun, window int) ([]Accepted, error) {
	created, err := s.insertRuns(ctx, onePerKey(rows), window)
	if err != nil {
		return nil, err
	}
	out := make([]Accepted, len(rows))
	losers := fillCreated(out, rows, created)
	if len(losers) == 0 {
		return out, nil
	}
	return out, s.explainLosers(ctx, out, rows, losers, window)
}

// onePerKey drops rows whose key an earlier row of the batch has: they become that row's attachers.
func onePerKey(rows []NewRun) []NewRun {
	seen := make(map[string]bool, len(rows))
	unique := make([]NewRun, 0, len(rows))
	for _, r := range rows {
		if r.KeyHash != nil {
			if seen[string(r.KeyHash)] {
				continue
			}
			seen[string(r.KeyHash)] = true
		}
		unique = append(unique, r)
	}
	return unique
}

type createdRow struct {
	ID         string    `db:"run_id"`
	Dispatched bool      `db:"dispatched"`
	CreatedAt  time.Time `db:"created_at"`
}

func (s *Store) insertRuns(ctx context.Context, rows []NewRun, window int) (map[string]createdRow, error) {
	text := func(f func(*NewRun) string) any { return pq.Array(column(rows, f)) }
	hash := func(f func(*NewRun) []byte) any { return pq.ByteaArray(column(rows, f)) }
	secs := func(f func(*NewRun) time.Duration) any {
		return pq.Array(column(rows, func(r *NewRun) int64 { return int64(f(r) / time.Second) }))
	}
	var created []createdRow
	err := s.accepts.selectInto(ctx, &created, acceptQuery,
		text(func(r *NewRun) string { return r.ID }),
		text(func(r *NewRun) string { return r.OrganizationID }),
		text(func(r *NewRun) string { return r.AgentID }),
		text(func(r *NewRun) string { return r.TemplateID }),
		text(func(r *NewRun) string { return string(r.CallerKind) }),
		text(func(r *NewRun) string { return r.Principal }),
		text(func(r *NewRun) string { return r.SessionID }),
		hash(func(r *NewRun) []byte { return r.SessionKey }),
		text(func(r *NewRun) string { return r.TriggerType }),
		text(func(r *NewRun) string { return r.AutomationID }),
		text(func(r *NewRun) string { return r.IdempotencyKey }),
		hash(func(r *NewRun) []byte { return r.KeyHash }),
		hash(func(r *NewRun) []byte { return r.Fingerprint }),
		text(func(r *NewRun) string { return string(r.Input) }),
		text(func(r *NewRun) string { return string(r.Lane) }),
		text(func(r *NewRun) string { return r.Dedupe }),
		text(func(r *NewRun) string { return r.ReplyTo }),
		text(func(r *NewRun) string { return r.Traceparent }),
		secs(func(r *NewRun) time.Duration { return r.Retention }),
		secs(func(r *NewRun) time.Duration { return r.Deadline }),
		window, firstRing)
	if err != nil {
		return nil, fmt.Errorf("inserting runs: %w", err)
	}
	byID := make(map[string]createdRow, len(created))
	for _, c := range created {
		byID[c.ID] = c
	}
	return byID, nil
}

// column gathers one field of many rows for unnest.
func column[T, V any](rows []T, f func(*T) V) []V {
	out := make([]V, len(rows))
	for i := range rows {
		out[i] = f(&rows[i])
	}
	return out
}

// fillCreated answers the rows that became runs and gives the places of those that did not.
func fillCreated(out []Accepted, rows []NewRun, created map[string]createdRow) (losers []int) {
	for i, r := range rows {
		c, ok := created[r.ID]
		if !ok {
			losers = append(losers, i)
			continue
		}
		out[i] = Accepted{Run: r.asStored(c.CreatedAt)}
		if c.Dispatched {
			out[i].Job = r.job()
		}
	}
	return losers
}

func (r NewRun) job() *domain.Job {
	return &domain.Job{RunID: r.ID, OrganizationID: r.OrganizationID, Lane: r.Lane, Dedupe: r.Dedupe,
		DispatchNo: 1, ReplyTo: r.ReplyTo, Traceparent: r.Traceparent}
}

func (r NewRun) asStored(created time.Time) StoredRun {
	return StoredRun{
		OrganizationID: r.OrganizationID, Principal: r.Principal, Fingerprint: r.Fingerprint,
		Run: domain.Run{
			ID: r.ID, Status: domain.RunQueued, AgentID: optional(r.AgentID), TemplateID: optional(r.TemplateID),
			SessionID: r.SessionID, Trigger: domain.Trigger{Type: r.TriggerType, AutomationID: optional(r.AutomationID)},
			IdempotencyKey: optional(r.IdempotencyKey), CreatedAt: domain.At(created),
		},
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// explainLosers answers the rows that were not inserted. It runs as separate statements, whose snapshots
// see the transaction that won the key: the inserting statement's does not.
func (s *Store) explainLosers(ctx context.Context, out []Accepted, rows []NewRun, losers []int, window int) error {
	var hashes [][]byte
	var agents []string
	for _, i := range losers {
		hashes, agents = append(hashes, rows[i].KeyHash), append(agents, rows[i].AgentID)
	}
	holders, err := s.RunsByKey(ctx, hashes)
	if err != nil {
		return err
	}
	callers, err := s.allowedCallers(ctx, agents)
	if err != nil {
		return err
	}
	var blocked []int // by a run whose retention has passed
	for j, i := range losers {
		r := rows[i]
		allowed, exists := callers[agentOf{r.OrganizationID, r.AgentID}]
		switch {
		case holders[j] != nil:
			out[i] = Accepted{Run: *holders[j], Existing: true}
		case r.AgentID != "" && exists && !slices.Contains(allowed, string(r.CallerKind)):
			out[i] = Accepted{Err: apierr.New(apierr.CallerNotAllowed, "this agent's allowedCallers does not include %q", r.CallerKind)}
		case r.KeyHash != nil && (exists || r.TemplateID != ""):
			blocked = append(blocked, i)
			out[i] = Accepted{Err: notFound()} // unless releasing the key shows otherwise
		default:
			out[i] = Accepted{Err: notFound()}
		}
	}
	return s.replaceExpired(ctx, out, rows, blocked, window)
}

type agentOf struct{ organization, agent string }

// allowedCallers reads the allowedCallers of the agents that exist.
func (s *Store) allowedCallers(ctx context.Context, agents []string) (map[agentOf][]string, error) {
	var present []struct {
		ID             string         `db:"id"`
		OrganizationID string         `db:"org_id"`
		AllowedCallers pq.StringArray `db:"allowed_callers"`
	}
	err := s.db.SelectContext(ctx, &present, `SELECT id, org_id, allowed_callers FROM agents WHERE id = ANY ($1) AND deleted_at IS NULL`, pq.Array(agents))
	if err != nil {
		return nil, fmt.Errorf("reading agents: %w", err)
	}
	out := make(map[agentOf][]string, len(present))
	for _, a := range present {
		out[agentOf{a.OrganizationID, a.ID}] = a.AllowedCallers
	}
	return out, nil
}

// replaceExpired frees the keys of runs whose retention has passed and accepts the blocked rows in their place.
func (s *Store) replaceExpired(ctx context.Context, out []Accepted, rows []NewRun, blocked []int, window int) error {
	if len(blocked) == 0 {
		return nil
	}
	again := make([]NewRun, len(blocked))
	hashes := make([][]byte, len(blocked))
	for j, i := range blocked {
		again[j], hashes[j] = rows[i], rows[i].KeyHash
	}
	var freed int64
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE runs SET idempotency_hash = NULL
			WHERE idempotency_hash = ANY ($1) AND expires_at <= clock_timestamp()`, pq.ByteaArray(hashes))
		if err != nil {
			return err
		}
		freed, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return fmt.Errorf("releasing expired keys: %w", err)
	}
	if freed == 0 {
		return nil
	}
	accepted, err := s.Accept(ctx, again, window)
	if err != nil {
		return err
	}
	for j, i := range blocked {
		out[i] = accepted[j]
	}
	return nil
}

// acceptedAfterAll looks up what a statement did whose answer was lost, and tries once more for the rows
// that do not exist: their ids are theirs alone, so a run that appears meanwhile only fails the second try.
func (s *Store) acceptedAfterAll(ctx context.Context, rows []NewRun, window int, cause error) ([]Accepted, error) {
	created, err := s.createdRuns(ctx, rows)
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	out := make([]Accepted, len(rows))
	missing := fillCreated(out, rows, created)
	if len(missing) == 0 {
		return out, nil
	}
	again := make([]NewRun, len(missing))
	for j, i := range missing {
		again[j] = rows[i]
	}
	accepted, err := s.acceptOnce(ctx, again, window)
	for j, i := range missing {
		if err != nil {
			out[i] = Accepted{Err: errors.Join(cause, err)}
			continue
		}
		out[i] = accepted[j]
	}
	return out, nil
}

// createdRuns reads which of the rows exist. None counts as dispatched: whether its doorbell was rung is
// not known, and the sweeper rings for it.
func (s *Store) createdRuns(ctx context.Context, rows []NewRun) (map[string]createdRow, error) {
	var found []createdRow
	err := s.db.SelectContext(ctx, &found, `SELECT id AS run_id, created_at, false AS dispatched FROM runs WHERE id = ANY ($1)`,
		pq.Array(column(rows, func(r *NewRun) string { return r.ID })))
	if err != nil {
		return nil, fmt.Errorf("looking accepted runs up: %w", err)
	}
	out := make(map[string]createdRow, len(found))
	for _, c := range found {
		out[c.ID] = c
	}
	return out, nil
}

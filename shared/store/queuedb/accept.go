package queuedb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// NewRun is a run to accept. The caller generates the run's id, so that the run can be looked up if
// the reply to its commit is lost.
//
// If Previous names a run of the session, the new run continues that run and waits only for it. If
// Previous is empty, the new run continues no run and waits for no run. If Previous is nil, the new
// run continues the preceding run of the session and waits for all earlier runs.
type NewRun struct {
	ID             string
	OrganizationID string
	AgentID        string // exactly one of AgentID and TemplateID is not empty
	TemplateID     string
	CallerKind     domain.CallerKind
	Principal      string // owner of the session; other principals do not see the run
	SessionID      string
	SessionKey     []byte // a hash over organization, target, principal and SessionID
	OwnSession     bool   // SessionID was generated for this run, so the session has no other run
	TriggerType    string // how the run was started, as in domain.Trigger
	AutomationID   string // empty: none
	IdempotencyKey string // empty: none, and then KeyHash is nil
	KeyHash        []byte
	Fingerprint    []byte        // a hash of the request, to detect a different request with the same key
	Input          []byte        // JSON of domain.Input
	Lane           domain.Lane   // decides which slots the run may use
	Dedupe         string        // the part that the message ids of all the run's jobs have in common
	ReplyTo        string        // the inbox of the waiting ingress; may be empty
	Traceparent    string        // W3C trace context of the request; may be empty
	Retention      time.Duration // 0: kept until its session is erased
	Deadline       time.Duration // time from acceptance, or from the end of Hold, to the run's deadline
	KeyID          string        // the API key of the request; empty: none
	Hold           time.Duration // delay before the run may start; 0: none
	Previous       *string       // the previous run of the session; see NewRun

	Attachments []domain.Attachment // as in Input; for AsStored
}

// Size returns the approximate number of bytes that the run adds to a statement.
func (r NewRun) Size() int { return len(r.Input) + 1024 }

// HoldUntilReleased is the value of NewRun.Hold for a run that does not start until it is released.
// Runs that coalesce deliveries use it.
const HoldUntilReleased time.Duration = -1

// Accepted is the result of accepting a NewRun: a new run, or the existing run with the same
// idempotency key, or an error. The caller compares the Fingerprint of an existing run with the
// Fingerprint of its request.
type Accepted struct {
	Run      rundb.StoredRun
	Existing bool        // Run is the existing run with the same idempotency key
	Job      *domain.Job // job to publish now, if Run is new and has a slot
	Err      error
}

// FirstRepublish is how long a dispatched run may stay queued before the sweeper assumes that its
// job message was lost.
const FirstRepublish = "5 seconds"

// Accept inserts runs, usually in one transaction. When it returns without an error, every accepted
// run is on disk. A run waits if no slot is free. The caller publishes the Job of each result; if
// the process dies before that, the sweeper publishes it.
//
// The results are in the order of rows. The Err of a result concerns that row only. It is not_found
// if the run's agent or template does not exist, and caller_not_allowed if the agent refuses the
// kind of caller. It is ErrLocked if another transaction has locked the run's session or key.
//
// If Accept returns an error, usually none of the runs exists. Some may exist if the reply was lost
// and the runs could not be looked up.
func (s *Store) Accept(ctx context.Context, rows []NewRun) ([]Accepted, error) {
	return s.accept(ctx, rows, acceptCall{splitUntil: time.Now().Add(pg.SplitFor)})
}

// acceptCall is the state of one call of Accept. A recursive call for a part of the rows gets a
// copy of the state. After splitUntil, a lock no longer makes accept split the rows.
type acceptCall struct {
	splitUntil time.Time
	tries      int // number of retries of rows whose idempotency key belonged to a run that was removed before it was looked up
}

// accept implements Accept with acceptOnce. If the reply is lost, accept looks the runs up. If
// PostgreSQL rejects a row, or a row is locked, accept halves the list until it finds that row.
func (s *Store) accept(ctx context.Context, rows []NewRun, call acceptCall) ([]Accepted, error) {
	// It is always safe to repeat the statement: the caller has chosen the ids, and an id is
	// inserted at most once.
	out, err := s.acceptOnce(ctx, rows, call)
	failed := func(err error) Accepted { return Accepted{Err: err} }
	switch {
	case err == nil:
		return out, nil
	case pg.IsDisconnect(err) || pg.Violates(err, "runs_pkey"):
		return s.recoverAccepted(ctx, rows, call, err)
	case pg.IsLocked(err) && (len(rows) == 1 || time.Now().After(call.splitUntil)):
		return slices.Repeat([]Accepted{{Err: pg.ErrLocked}}, len(rows)), nil
	case len(rows) > 1 && (pg.IsBadData(err) || pg.IsLocked(err)):
		// Halving the list isolates the row that PostgreSQL rejects or that waits for a lock. All
		// other rows are accepted.
		return pg.InParts(rows, len(rows)/2, func(part []NewRun) ([]Accepted, error) { return s.accept(ctx, part, call) }, failed)
	case pg.IsBadData(err):
		return []Accepted{{Err: s.budgets.Rejected(ctx, rows[0].OrganizationID, "accepting run", err)}}, nil
	}

	return nil, err
}

// acceptOnce inserts the rows with one statement, and then finds out why rows were not
// inserted.
func (s *Store) acceptOnce(ctx context.Context, rows []NewRun, call acceptCall) ([]Accepted, error) {
	// The statement inserts all rows that it can. It does not report why it has left a row out.
	created, err := s.insertRuns(ctx, onePerKey(rows))
	if err != nil {
		return nil, err
	}

	out := make([]Accepted, len(rows))

	// If no run was created for a row, another run has the row's idempotency key, or the row's
	// agent or template is missing, or the agent does not allow the caller.
	losers := fillCreated(out, rows, created)
	if len(losers) == 0 {
		return out, nil
	}

	if err := s.explainLosers(ctx, out, rows, losers, call); err != nil {
		for _, i := range losers { // losers are the rows that were not inserted; all others are accepted
			out[i] = Accepted{Err: err}
		}
	}

	return out, nil
}

// onePerKey returns the rows without those whose idempotency key belongs to an earlier row of the
// batch. The omitted rows get the run of the earlier row.
func onePerKey(rows []NewRun) []NewRun {
	// A row without an idempotency key is never a duplicate.
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

// The SQL functions are defined in the schema. Each function itself restricts its access to the
// organizations of its rows, so that a call takes only one round trip.
const (
	// acceptSingleQuery accepts runs that are independent of other runs; see NewRun.single. Most
	// runs are.
	acceptSingleQuery = `SELECT run_id, created_at, dispatched, version FROM accept_single_runs($1, $2, $3, $4)`
	// acceptQuery accepts any run.
	acceptQuery = `SELECT run_id, created_at, dispatched, version, CASE WHEN seq > 1 THEN preceding_run(session_ref, seq) END AS preceding
		FROM accept_runs($1, $2, $3, $4, $5)`
)

// acceptance returns the statement that accepts the runs, and its arguments. taken is the
// number of slots per lane.
func acceptance(rows []NewRun, taken map[Lane]int) (query string, args []any) {
	// The statement gets, for each row, the number of free slots of the row's lane.
	slots := pq.Array(pg.Column(rows, func(r *NewRun) int64 { return int64(taken[r.lane()]) }))
	runs, organizations := newRuns(rows)
	args = []any{runs, pq.Array(organizations), slots, FirstRepublish}

	// A batch is one statement, so one run that is not independent requires the general statement
	// for the whole batch.
	if slices.ContainsFunc(rows, func(r NewRun) bool { return !r.single() }) {
		return acceptQuery, append(args, pq.Array(pg.Column(rows, func(r *NewRun) *string { return r.Previous })))
	}
	return acceptSingleQuery, args
}

// single reports whether the run is independent of other runs: a run of an agent, in a new session,
// that may start immediately.
func (r NewRun) single() bool { return r.OwnSession && r.AgentID != "" && r.Hold == 0 }

// newRuns encodes the rows as an array of the SQL type new_run, and returns their
// distinct organizations.
func newRuns(rows []NewRun) (runs string, organizations []string) {
	organizations = make([]string, 0, 4)
	t := pg.NewTuples(len(rows), 1024)
	for i := range rows {
		r := &rows[i]

		// A batch has few organizations, so a linear search is cheap.
		organization := slices.Index(organizations, r.OrganizationID)
		if organization < 0 {
			organization, organizations = len(organizations), append(organizations, r.OrganizationID)
		}
		t.Next()
		t.Text(r.ID)
		t.Text(r.OrganizationID)
		t.Optional(r.AgentID)
		t.Optional(r.TemplateID)
		t.Text(string(r.CallerKind))
		t.Text(r.Principal)
		t.Text(r.SessionID)
		t.Bytes(r.SessionKey)
		t.Text(r.TriggerType)
		t.Optional(r.AutomationID)
		t.Optional(r.IdempotencyKey)
		t.Bytes(r.KeyHash)
		t.Bytes(r.Fingerprint)
		t.Text(string(r.Input))
		t.Text(string(r.Lane))
		t.Text(r.Dedupe)
		t.Text(r.ReplyTo)
		t.Text(r.Traceparent)
		t.Int(int64(r.Retention / time.Second))
		t.Int(int64(r.Deadline / time.Second))
		t.Int(r.holdMillis())
		t.Optional(r.KeyID)
		t.Int(int64(organization) + 1)
		t.Int(int64(i)) // position of the row in the batch
		t.Done()
	}

	return t.String(), organizations
}

// createdRow is a row of the accepting statement's result. A run that was not inserted has no row.
// If no slot was free for the run, Dispatched is false and the run waits.
type createdRow struct {
	ID         string    `db:"run_id"`
	Dispatched bool      `db:"dispatched"`
	CreatedAt  time.Time `db:"created_at"`
	Version    int       `db:"version"`   // of the run's agent or template
	Preceding  *string   `db:"preceding"` // id of the preceding run of the session

	locked bool // the run was not created, because another transaction has locked its session
}

// insertRuns takes slots for the runs, inserts the runs, and frees the slots for which no run was
// dispatched.
func (s *Store) insertRuns(ctx context.Context, rows []NewRun) (map[string]createdRow, error) {
	taken := s.slots.takeFor(ctx, rows)

	// After an error no run counts as dispatched, so all taken slots are freed. If the insert was
	// nevertheless committed, the next count of the slots corrects the estimate.
	created, err := s.insertTaken(ctx, rows, taken)
	s.slots.returnUnused(rows, taken, created)
	return created, err
}

// insertTaken inserts the runs. In each lane it dispatches as many runs as the argument taken has
// slots for the lane.
func (s *Store) insertTaken(ctx context.Context, rows []NewRun, taken map[Lane]int) (map[string]createdRow, error) {
	// The statement waits briefly for locks. After a batch with a locked row, the slower
	// insertUnlocked is used for a while, because it inserts the unlocked runs without waiting.
	if !s.accepts.SkipsLocked() {
		var created []createdRow
		query, args := acceptance(rows, taken)
		err := s.accepts.SelectInto(ctx, &created, query, args...)
		if err == nil {
			return createdByID(created), nil
		}
		if !pg.IsLocked(err) {
			return nil, fmt.Errorf("inserting runs: %w", err)
		}
	}
	return s.insertUnlocked(ctx, rows, taken)
}

// insertUnlocked inserts the runs whose sessions no other transaction has locked. The other runs
// are marked as locked in the result. insertUnlocked needs a second statement and an explicit
// transaction.
func (s *Store) insertUnlocked(ctx context.Context, rows []NewRun, taken map[Lane]int) (map[string]createdRow, error) {
	var created []createdRow
	var locked map[string]bool
	err := s.db.WithinBriefly(ctx, organizationsFor(rows), pg.PartLockTimeout, func(tx *sqlx.Tx) (err error) {
		if locked, err = lockSessions(ctx, tx, rows); err != nil {
			return err
		}

		// WithinBriefly may call the function again, so the results of an earlier try are dropped.
		created = created[:0]
		free := make([]NewRun, 0, len(rows))
		for _, r := range rows {
			if locked[string(r.SessionKey)] {
				created = append(created, createdRow{ID: r.ID, locked: true})
				continue
			}
			free = append(free, r)
		}

		if len(free) == 0 {
			return nil
		}

		// Only runs with unlocked sessions are inserted, so the statement waits for no session.
		var inserted []createdRow
		query, args := acceptance(free, taken)
		err = tx.SelectContext(ctx, &inserted, query, args...)
		created = append(created, inserted...)
		return err
	})

	// The next batches skip locked sessions without trying the fast statement first.
	if pg.IsLocked(err) || len(locked) > 0 {
		s.accepts.MetLocked()
	}

	if err != nil {
		return nil, fmt.Errorf("inserting runs: %w", err)
	}

	return createdByID(created), nil
}

// createdByID returns the rows by run id.
func createdByID(created []createdRow) map[string]createdRow {
	out := make(map[string]createdRow, len(created))
	for _, c := range created {
		out[c.ID] = c
	}
	return out
}

// holdMillis returns the delay of the run in milliseconds, rounded down, but at least 1 if there is
// a delay. 0 means no delay, and -1 means a delay until the run is released.
func (r NewRun) holdMillis() int64 {
	switch {
	case r.Hold < 0:
		return -1
	case r.Hold > 0:
		return max(1, r.Hold.Milliseconds())
	default:
		return 0
	}
}

// fillCreated sets the results of the rows that became runs, and returns the indexes of the
// remaining rows.
func fillCreated(out []Accepted, rows []NewRun, created map[string]createdRow) (losers []int) {
	for i, r := range rows {
		c, ok := created[r.ID]
		if !ok {
			losers = append(losers, i)
			continue
		}
		if c.locked {
			out[i] = Accepted{Err: pg.ErrLocked}
			continue
		}

		// A run without a slot has no job; it is dispatched when a slot becomes free.
		out[i] = Accepted{Run: r.created(c)}
		if c.Dispatched {
			out[i].Job = r.job()
		}
	}

	return losers
}

// job returns the first job message of the run. A later job of the same run has a higher dispatch
// number.
func (r NewRun) job() *domain.Job {
	return &domain.Job{
		RunID: r.ID, OrganizationID: r.OrganizationID, Lane: r.Lane, Dedupe: r.Dedupe,
		DispatchNo: 1, ReplyTo: r.ReplyTo, Traceparent: r.Traceparent,
	}
}

// created returns the run as RunByID would read it directly after its acceptance.
func (r NewRun) created(c createdRow) rundb.StoredRun {
	out := rundb.StoredRun{
		OrganizationID: r.OrganizationID, Principal: r.Principal, Fingerprint: r.Fingerprint,
		Run: domain.Run{
			ID: r.ID, Status: domain.RunQueued, AgentID: pg.Optional(r.AgentID), TemplateID: pg.Optional(r.TemplateID),
			SessionID: r.SessionID, PreviousRunID: rundb.NamedRun(r.Previous),
			Trigger:        domain.Trigger{Type: r.TriggerType, AutomationID: pg.Optional(r.AutomationID)},
			IdempotencyKey: pg.Optional(r.IdempotencyKey), CreatedAt: domain.At(c.CreatedAt), Attachments: r.Attachments,
		},
	}
	if r.Previous == nil {
		out.Run.PreviousRunID = c.Preceding
	}
	if r.AgentID != "" {
		out.Run.AgentVersion = &c.Version
	}
	return out
}

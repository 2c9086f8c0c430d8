package store

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
)

// MaxDeaths is how many attempts of a run may end in a worker's death before it is failed as poison.
const MaxDeaths = 5

// Ended is a run that was ended from outside its worker.
type Ended struct {
	RunID          string
	OrganizationID string
	Lane           domain.Lane
	Dispatched     bool // it had a slot of its lane, for HandOver
	ReplyTo        string
	Result         []byte
}

type openRow struct {
	runRow
	Lane       domain.Lane `db:"lane"`
	Dispatched bool        `db:"dispatched"`
	ReplyTo    string      `db:"reply_to"`
	Fence      int64       `db:"fence"`
	Retention  int64       `db:"retention"`
	LastError  []byte      `db:"last_error"`
	Now        time.Time   `db:"db_now"`
}

const openSelect = `SELECT ` + runColumns + `, o.lane, o.dispatched, o.reply_to, o.fence, r.retention, o.last_error, clock_timestamp() AS db_now
	FROM open_runs o JOIN runs r ON r.id = o.run_id WHERE `

// verdict says how an open run ends.
type verdict func(openRow) (domain.RunStatus, *domain.RunError)

func as(status domain.RunStatus, cause *domain.RunError) verdict {
	return func(openRow) (domain.RunStatus, *domain.RunError) { return status, cause }
}

// end closes the open runs of organizations that where selects, under row locks: whatever worker holds one can
// write nothing afterwards.
func (s *Store) end(ctx context.Context, orgs []string, how verdict, where string, args ...any) ([]Ended, error) {
	var ended []Ended
	err := s.within(ctx, orgs, func(tx *sqlx.Tx) error {
		var rows []openRow
		ended = nil
		if err := tx.SelectContext(ctx, &rows, openSelect+where, args...); err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		var err error
		ended, err = closeRuns(ctx, tx, rows, how)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ending runs: %w", err)
	}
	return ended, nil
}

// closeRuns ends open runs whose rows are locked.
func closeRuns(ctx context.Context, tx *sqlx.Tx, rows []openRow, how verdict) ([]Ended, error) {
	endings := make([]Ending, len(rows))
	ended := make([]Ended, len(rows))
	orgs, ids := column(rows, func(r *openRow) string { return r.OrganizationID }), column(rows, func(r *openRow) string { return r.ID })
	done, err := progress(ctx, tx, orgs, ids)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if endings[i], err = row.ending(how, done[row.ID]); err != nil {
			return nil, err
		}
		ended[i] = Ended{
			RunID: row.ID, OrganizationID: row.OrganizationID, Lane: row.Lane, Dispatched: row.Dispatched, ReplyTo: row.ReplyTo,
			Result: endings[i].Result,
		}
	}
	if err := noteEndedWaits(ctx, tx, rows, endings); err != nil {
		return nil, err
	}
	_, err = finish(endings, func(dest any, query string, args ...any) error {
		return tx.SelectContext(ctx, dest, query, args...)
	})
	return ended, err
}

// ending is an end from outside. Its event comes after whatever a reader may have seen of the worker's.
func (row openRow) ending(how verdict, done *Progress) (Ending, error) {
	run := row.stored().Run
	done.show(&run)
	run.RequiredAction = nil
	status, cause := how(row)
	run.End(status, cause, domain.At(row.Now), row.Retention)
	ending, err := NewEnding(Held{OrganizationID: row.OrganizationID, Fence: row.Fence}, run)
	ending.endFence, ending.EndN = row.Fence+1, 1
	return ending, err
}

// found is what a look over all organizations found: rows to be locked and checked by their organizations.
type found struct {
	runs, organizations []string
}

// find asks one of the schema's functions that look over all organizations.
func (s *Store) find(ctx context.Context, query string, args ...any) (found, error) {
	var rows []struct {
		RunID          string `db:"run_id"`
		OrganizationID string `db:"org_id"`
	}
	if err := s.db.SelectContext(ctx, &rows, query, args...); err != nil {
		return found{}, fmt.Errorf("looking over all organizations: %w", err)
	}
	var out found
	for _, r := range rows {
		out.runs, out.organizations = append(out.runs, r.RunID), append(out.organizations, r.OrganizationID)
	}
	return out, nil
}

// A round of a sweeper works on one kind of rows for about roundTime, in transactions of up to partMax rows.
const (
	roundTime = time.Second
	partMax   = 500
)

// parts yields what was found, a transaction's worth at a time, until the round's time is over. A part that another sweeper has in hand
// costs one statement: its rows are locked, and passed over.
func (f found) parts() iter.Seq[found] {
	until := time.Now().Add(roundTime)
	return func(yield func(found) bool) {
		for from := 0; from < len(f.runs) && time.Now().Before(until); from += partMax {
			to := min(from+partMax, len(f.runs))
			if !yield(found{f.runs[from:to], f.organizations[from:to]}) {
				return
			}
		}
	}
}

// endFound is end for what was found, in parts; where has the runs as its first argument. With an error it gives what has ended before.
func (s *Store) endFound(ctx context.Context, late found, how verdict, where string, args ...any) ([]Ended, error) {
	var all []Ended
	for part := range late.parts() {
		ended, err := s.end(ctx, part.organizations, how, where, append([]any{pq.Array(part.runs)}, args...)...)
		all = append(all, ended...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// Cancel ends an open run of an organization; a run that has ended is left as it is. A principal other
// than "" restricts it to that principal's. It returns the run as it then stands, like ShortRun.
func (s *Store) Cancel(ctx context.Context, org, principal, runID string) (StoredRun, []Ended, error) {
	ended, err := s.end(ctx, []string{org}, as(domain.RunCancelled, nil),
		`o.run_id = $1 AND o.org_id = $2 AND ($3 = '' OR r.principal = $3) FOR UPDATE OF o`, runID, org, principal)
	if err != nil {
		return StoredRun{}, nil, err
	}
	run, err := s.ShortRun(ctx, org, principal, runID)
	return run, ended, err
}

// CancelQueued ends the runs of an agent that was deleted and that no worker holds, up to limit of them.
func (s *Store) CancelQueued(ctx context.Context, org, agentID string, limit int) ([]Ended, error) {
	return s.end(ctx, []string{org}, as(domain.RunCancelled, nil),
		`o.agent_id = $1 AND o.org_id = $2 AND o.status <> 'running' ORDER BY o.run_id LIMIT $3 FOR UPDATE OF o SKIP LOCKED`, agentID, org, limit)
}

// EndOverdue times out open runs whose deadline has passed, up to limit of them. A run that a retryable
// cause had put back fails with that cause.
func (s *Store) EndOverdue(ctx context.Context, limit int) ([]Ended, error) {
	late, err := s.find(ctx, `SELECT run_id, org_id FROM overdue_runs($1)`, limit)
	if err != nil || len(late.runs) == 0 {
		return nil, err
	}
	return s.endFound(ctx, late, overdue, `o.run_id = ANY ($1) AND o.deadline <= clock_timestamp()
		AND o.status <> 'requires_action' ORDER BY o.run_id FOR UPDATE OF o SKIP LOCKED`)
}

func overdue(row openRow) (domain.RunStatus, *domain.RunError) {
	var retry domain.RunError
	if row.Status == string(domain.RunQueued) && json.Unmarshal(row.LastError, &retry) == nil && retry.Code != "" {
		return domain.RunFailed, &retry
	}
	return domain.RunTimedOut, DeadlineExceeded
}

// DeadlineExceeded is the cause that timed-out runs carry.
var DeadlineExceeded = &domain.RunError{Code: "deadline_exceeded", Message: "the run did not finish before its deadline"}

// WorkerLost is the cause that poison runs carry.
var WorkerLost = &domain.RunError{Code: "worker_lost", Message: "the worker carrying out this run was lost too often"}

// EndPoison fails queued runs that have cost MaxDeaths workers, up to limit of them.
func (s *Store) EndPoison(ctx context.Context, limit int) ([]Ended, error) {
	poison, err := s.find(ctx, `SELECT run_id, org_id FROM poison_runs($1, $2)`, MaxDeaths, limit)
	if err != nil || len(poison.runs) == 0 {
		return nil, err
	}
	return s.endFound(ctx, poison, as(domain.RunFailed, WorkerLost), `o.run_id = ANY ($1) AND o.status = 'queued'
		AND o.deaths >= $2 ORDER BY o.run_id FOR UPDATE OF o SKIP LOCKED`, MaxDeaths)
}

// RequeueLost returns running runs whose lease has run out to the queue and counts the death of their
// worker. The raised fence voids whatever that worker may still write. For one lease after a start of the
// server none is lost: its outage kept living workers from renewing theirs. It gives the organizations of those that it
// has returned, one for each, also with an error.
func (s *Store) RequeueLost(ctx context.Context, limit int) (orgs []string, err error) {
	lost, err := s.find(ctx, `SELECT run_id, org_id FROM lost_runs($1, $2)`, limit, interval(Lease))
	if err != nil || len(lost.runs) == 0 {
		return nil, err
	}
	for part := range lost.parts() {
		var requeued []string
		err := s.within(ctx, part.organizations, func(tx *sqlx.Tx) error {
			requeued = requeued[:0]
			return tx.SelectContext(ctx, &requeued, requeueQuery, pq.Array(part.runs), endedLost)
		})
		if err != nil {
			return orgs, fmt.Errorf("requeueing lost runs: %w", err)
		}
		orgs = append(orgs, requeued...)
	}
	return orgs, nil
}

// requeueQuery also notes that the attempts were lost.
var requeueQuery = `WITH lost AS (
	  UPDATE open_runs SET status = 'queued', dispatched = false, lease_until = NULL, fence = fence + 1, deaths = deaths + 1
	  WHERE run_id IN (SELECT run_id FROM open_runs WHERE run_id = ANY ($1) AND status = 'running' AND lease_until < clock_timestamp()
	    ORDER BY run_id FOR UPDATE SKIP LOCKED)
	  RETURNING run_id, org_id, fence - 1 AS fence, attempts, started_at
	), noted AS (` + noteEnd("lost", "'lost'", "NULL", "$2") + `)
	SELECT org_id FROM lost`

// DispatchWaiting dispatches waiting runs of all lanes that have free slots, up to most per lane. Delayed runs whose time has come wait
// from here on.
func (s *Store) DispatchWaiting(ctx context.Context, limit, most int) ([]domain.Job, error) {
	if err := s.releaseDelayed(ctx); err != nil {
		return nil, err
	}
	var rows []struct {
		OrganizationID string      `db:"org_id"`
		Lane           domain.Lane `db:"lane"`
	}
	if err := s.db.SelectContext(ctx, &rows, `SELECT org_id, lane FROM find_waiting_lanes()`); err != nil {
		return nil, fmt.Errorf("looking for waiting runs: %w", err)
	}
	lanes := make([]LaneOf, len(rows))
	for i, r := range rows {
		lanes[i] = LaneOf(r)
	}
	return s.TopUp(ctx, lanes, limit, most)
}

// releaseDelayed makes delayed runs wait whose time has come.
func (s *Store) releaseDelayed(ctx context.Context) error {
	for until := time.Now().Add(roundTime); ; {
		var n int
		if err := s.db.GetContext(ctx, &n, `SELECT release_delayed_runs($1)`, partMax); err != nil {
			return fmt.Errorf("releasing delayed runs: %w", err)
		}
		if n < partMax || time.Now().After(until) {
			return nil
		}
	}
}

// Overdue is a dispatched run that no worker has claimed in time.
type Overdue struct {
	Job          domain.Job
	DispatchedAt time.Time
}

// OverdueJobs reads dispatched, unclaimed runs whose time to be rung for again has come.
func (s *Store) OverdueJobs(ctx context.Context, limit int) ([]Overdue, error) {
	var rows []struct {
		jobRow
		DispatchedAt time.Time `db:"dispatched_at"`
	}
	if err := s.db.SelectContext(ctx, &rows, `SELECT `+jobColumns+`, o.dispatched_at FROM unclaimed_runs($1) o`, limit); err != nil {
		return nil, fmt.Errorf("reading overdue runs: %w", err)
	}
	out := make([]Overdue, len(rows))
	for i, r := range rows {
		out[i] = Overdue{Job: jobs([]jobRow{r.jobRow})[0], DispatchedAt: r.DispatchedAt}
	}
	return out, nil
}

// Redispatch raises the dispatch number of runs that are still unclaimed, doubles the time until the next
// suspicion up to five minutes, and gives what is to be rung for. Runs in later keep their number: their
// doorbell is in the stream still, and only the time of the next look moves. What another sweeper has redispatched is left alone. With an
// error it gives what was redispatched before.
func (s *Store) Redispatch(ctx context.Context, again, later []Overdue) ([]domain.Job, error) {
	var next []domain.Job
	for len(again)+len(later) > 0 {
		a, l := min(len(again), partMax), min(len(later), partMax)
		rung, err := s.redispatch(ctx, again[:a], later[:l])
		next = append(next, rung...)
		if err != nil {
			return next, err
		}
		again, later = again[a:], later[l:]
	}
	return next, nil
}

func (s *Store) redispatch(ctx context.Context, again, later []Overdue) ([]domain.Job, error) {
	runID := func(o *Overdue) string { return o.Job.RunID }
	orgs := column(slices.Concat(again, later), func(o *Overdue) string { return o.Job.OrganizationID })
	var rows []jobRow
	err := s.within(ctx, orgs, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		if err := tx.SelectContext(ctx, &rows, `UPDATE open_runs o SET dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
			next_dispatch_at = clock_timestamp() + least($2::interval * power(2, least(o.dispatch_no, 10)), interval '5 minutes')
			WHERE o.run_id IN (SELECT run_id FROM open_runs
			  WHERE run_id = ANY ($1) AND dispatched AND status = 'queued' AND next_dispatch_at <= clock_timestamp()
			  ORDER BY run_id FOR UPDATE SKIP LOCKED)
			RETURNING `+jobColumns, pq.Array(column(again, runID)), firstRing); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE open_runs SET next_dispatch_at = clock_timestamp() + $2::interval
			WHERE run_id IN (SELECT run_id FROM open_runs
			  WHERE run_id = ANY ($1) AND dispatched AND status = 'queued' ORDER BY run_id FOR UPDATE SKIP LOCKED)`,
			pq.Array(column(later, runID)), firstRing)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("redispatching runs: %w", err)
	}
	return jobs(rows), nil
}

// RingAll makes every dispatched, unclaimed run due at once: the stream that held their doorbells is gone.
func (s *Store) RingAll(ctx context.Context) error {
	var orgs []string
	if err := s.db.SelectContext(ctx, &orgs, `SELECT org_id FROM dispatched_organizations()`); err != nil {
		return fmt.Errorf("looking for dispatched runs: %w", err)
	}
	return s.within(ctx, orgs, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE open_runs SET next_dispatch_at = clock_timestamp()
			WHERE run_id IN (SELECT run_id FROM open_runs WHERE dispatched AND status = 'queued' ORDER BY run_id FOR UPDATE SKIP LOCKED)`)
		if err != nil {
			return fmt.Errorf("making runs due: %w", err)
		}
		return nil
	})
}

// Backlog counts the queued runs of each organization that has any, of most runs at most.
func (s *Store) Backlog(ctx context.Context, most int) (map[string]int, error) {
	var rows []struct {
		OrganizationID string `db:"org_id"`
		Runs           int    `db:"runs"`
	}
	if err := s.db.SelectContext(ctx, &rows, `SELECT org_id, runs FROM count_backlogs($1)`, most); err != nil {
		return nil, fmt.Errorf("counting backlog: %w", err)
	}
	out := make(map[string]int, len(rows))
	for _, r := range rows {
		out[r.OrganizationID] = r.Runs
	}
	return out, nil
}

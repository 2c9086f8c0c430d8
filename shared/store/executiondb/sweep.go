package executiondb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// Ended is a run that was ended by something other than its worker: a person, the sweeper, or the
// deletion of its agent. The caller publishes the result and gives the freed slot to another run.
type Ended struct {
	RunID          string
	OrganizationID string
	Lane           domain.Lane
	Dispatched     bool   // whether the run had a slot of its lane; for DispatchNext
	Followers      int    // number of runs that waited only for this run, for DispatchNext
	ReplyTo        string // the inbox of the ingress that waits for the run; empty: none
	Result         []byte // the rendered run
}

// openRow is a row of openSelect: an open run with the values that its end requires.
type openRow struct {
	rundb.RunRow
	Lane       domain.Lane `db:"lane"`
	Dispatched bool        `db:"dispatched"`
	ReplyTo    string      `db:"reply_to"`
	Fence      int64       `db:"fence"`
	Retention  int64       `db:"retention"`  // seconds; 0: until the session is erased
	LastError  []byte      `db:"last_error"` // JSON of a domain.RunError; nil: no attempt failed
	Now        time.Time   `db:"db_now"`     // the database's clock
}

// openSelect is the SQL that reads open runs o. A condition on o and a locking clause must follow.
const openSelect = `SELECT ` + rundb.RunColumns + `, ` + rundb.OpenAttachments + `,
	o.lane, o.dispatched, o.reply_to, o.fence, r.retention, o.last_error, clock_timestamp() AS db_now
	FROM open_runs o JOIN runs r ON r.id = o.run_id WHERE `

// verdict decides how an open run ends. The error is nil for a cancelled run.
type verdict func(openRow) (domain.RunStatus, *domain.RunError)

// endAs returns a function that returns the given status and cause for every run.
func endAs(status domain.RunStatus, cause *domain.RunError) verdict {
	return func(openRow) (domain.RunStatus, *domain.RunError) { return status, cause }
}

// end ends the open runs that an SQL condition selects, in one transaction and under row locks. The
// argument where contains the condition and the locking clause. A worker that holds one of these
// runs can write nothing afterwards.
func (s *Store) end(ctx context.Context, orgs []string, how verdict, where string, args ...any) ([]Ended, error) {
	var ended []Ended
	err := s.db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		var rows []openRow
		// The transaction may be retried, so each attempt starts with an empty list.
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

// closeRuns ends open runs whose rows are locked, within the transaction of the caller. The results
// are in the order of rows. The results are valid only after the commit.
func closeRuns(ctx context.Context, tx *sqlx.Tx, rows []openRow, how verdict) ([]Ended, error) {
	outcomes := make([]Outcome, len(rows))
	ended := make([]Ended, len(rows))
	orgs, ids := pg.Column(rows, func(r *openRow) string { return r.OrganizationID }), pg.Column(rows, func(r *openRow) string { return r.ID })

	// The result must include the run's progress up to now, because its worker can no longer report
	// it.
	done, err := rundb.ReadProgress(ctx, tx, orgs, ids)
	if err != nil {
		return nil, err
	}

	// Only a cancelled run keeps the part of its answer that was shown.
	var stopped []string
	for _, row := range rows {
		if status, _ := how(row); status == domain.RunCancelled {
			stopped = append(stopped, row.ID)
		}
	}
	shown := map[string]string{}
	if len(stopped) > 0 {
		if shown, err = shownTexts(ctx, tx, orgs, stopped); err != nil {
			return nil, err
		}
	}

	for i, row := range rows {
		if outcomes[i], err = row.outcome(how, done[row.ID], shown[row.ID]); err != nil {
			return nil, err
		}
		ended[i] = Ended{
			RunID: row.ID, OrganizationID: row.OrganizationID, Lane: row.Lane, Dispatched: row.Dispatched, ReplyTo: row.ReplyTo,
			Result: outcomes[i].Result,
		}
	}

	if err := noteEndedWaits(ctx, tx, rows, outcomes); err != nil {
		return nil, err
	}

	finished, err := finish(outcomes, func(dest any, query string, args ...any) error {
		return tx.SelectContext(ctx, dest, query, args...)
	})
	if err == nil {
		err = keepShown(ctx, tx, rows, outcomes, shown)
	}
	for i := range ended {
		ended[i].Followers = finished.followers[ended[i].RunID]
	}
	return ended, err
}

// outcome returns the final state of a run that is not ended by its worker. The final event has a
// higher fence than all events of the worker. The message of a cancelled run is the part of its
// answer that was shown.
func (row openRow) outcome(how verdict, done *rundb.Progress, shown string) (Outcome, error) {
	// The result contains the tool calls and the usage up to now, but not the action that the run
	// waits for.
	run := row.Stored().Run

	done.Show(&run)
	run.RequiredAction = nil
	if shown != "" {
		run.Message = &shown
	}

	status, cause := how(row)
	run.End(status, cause, domain.At(row.Now), row.Retention)
	outcome, err := NewOutcome(lease.Held{OrganizationID: row.OrganizationID, Fence: row.Fence}, run)

	outcome.endFence, outcome.EndN = row.Fence+1, 1
	return outcome, err
}

// endFound calls end for the runs that were found, in parts of limited size, one transaction each.
// If it returns an error, it also returns the runs that it ended before the error.
func endFound(late pg.Found, end func(part pg.Found) ([]Ended, error)) ([]Ended, error) {
	var all []Ended
	for part := range late.Parts() {
		ended, err := end(part)
		all = append(all, ended...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// Cancel ends an open run of an organization. A finished run is not changed. If principal is not
// empty, only that principal's runs are found. Cancel returns the run in the form of ShortRun.
func (s *Store) Cancel(ctx context.Context, org, principal, runID string) (rundb.StoredRun, []Ended, error) {
	// Without a matching open run, nothing ends. ShortRun then finds the finished run, or returns
	// not_found.
	ended, err := s.end(ctx, []string{org}, endAs(domain.RunCancelled, nil),
		`o.run_id = $1 AND o.org_id = $2 AND ($3 = '' OR r.principal = $3) FOR UPDATE OF o`, runID, org, principal)
	if err != nil {
		return rundb.StoredRun{}, nil, err
	}
	run, err := s.runs.ShortRun(ctx, org, principal, runID)
	return run, ended, err
}

// CancelQueued ends at most limit runs that belong to a deleted agent and that no worker holds.
func (s *Store) CancelQueued(ctx context.Context, org, agentID string, limit int) ([]Ended, error) {
	// Each operand of the OR uses a partial index by organization. Otherwise PostgreSQL would read
	// all open runs.
	return s.end(ctx, []string{org}, endAs(domain.RunCancelled, nil),
		`o.agent_id = $1 AND o.org_id = $2 AND (o.dispatched OR NOT o.dispatched) AND o.status <> 'running'
		ORDER BY o.run_id LIMIT $3 FOR UPDATE OF o SKIP LOCKED`, agentID, org, limit)
}

// EndOverdue ends at most limit open runs whose deadline has passed. A queued run whose last
// attempt failed gets the status failed and the attempt's error. Any other run gets the status
// timed_out. Runs that wait for a person are left to EndUnanswered.
func (s *Store) EndOverdue(ctx context.Context, limit int) ([]Ended, error) {
	late, err := s.db.Find(ctx, `SELECT run_id, org_id FROM overdue_runs($1)`, limit)
	if err != nil || len(late.Runs) == 0 {
		return nil, err
	}
	return endFound(late, func(part pg.Found) ([]Ended, error) {
		return s.end(ctx, part.Organizations, overdue, `o.run_id = ANY ($1) AND o.deadline <= clock_timestamp()
			AND o.status <> 'requires_action' ORDER BY o.run_id FOR UPDATE OF o SKIP LOCKED`, pq.Array(part.Runs))
	})
}

// overdue returns the status and the error for a run whose deadline has passed.
func overdue(row openRow) (domain.RunStatus, *domain.RunError) {
	// The error of the last attempt is more informative than the fact that the deadline has passed.
	var retry domain.RunError
	if row.Status == string(domain.RunQueued) && json.Unmarshal(row.LastError, &retry) == nil && retry.Code != "" {
		return domain.RunFailed, &retry
	}
	return domain.RunTimedOut, DeadlineExceeded
}

// DeadlineExceeded is the error of runs that timed out.
var DeadlineExceeded = &domain.RunError{Code: "deadline_exceeded", Message: "The run did not finish before its deadline."}

// WorkerLost is the error of runs whose workers died MaxDeaths times.
var WorkerLost = &domain.RunError{Code: "worker_lost", Message: "The workers that executed this run stopped unexpectedly too often."}

// EndPoison fails up to limit queued runs whose workers died lease.MaxDeaths times. Such a run may
// be the cause of the deaths, so it is not started again.
func (s *Store) EndPoison(ctx context.Context, limit int) ([]Ended, error) {
	poison, err := s.db.Find(ctx, `SELECT run_id, org_id FROM poison_runs($1, $2)`, lease.MaxDeaths, limit)
	if err != nil || len(poison.Runs) == 0 {
		return nil, err
	}
	return endFound(poison, func(part pg.Found) ([]Ended, error) {
		return s.end(ctx, part.Organizations, endAs(domain.RunFailed, WorkerLost), `o.run_id = ANY ($1) AND o.status = 'queued'
			AND o.deaths >= $2 ORDER BY o.run_id FOR UPDATE OF o SKIP LOCKED`, pq.Array(part.Runs), lease.MaxDeaths)
	})
}

// RequeueLost requeues running runs whose lease has expired, and counts the death of their worker.
// The incremented fence invalidates later writes of that worker. For the duration of a lease after
// the database server's start, no run counts as lost, because workers could not renew their leases
// during the outage. RequeueLost returns the organization of each requeued run, even if it also
// returns an error.
func (s *Store) RequeueLost(ctx context.Context, limit int) (orgs []string, err error) {
	// For the duration of a lease after the start of the database server, no run counts as lost.
	lost, err := s.db.Find(ctx, `SELECT run_id, org_id FROM lost_runs($1, $2)`, limit, pg.Interval(lease.Lease))
	if err != nil || len(lost.Runs) == 0 {
		return nil, err
	}

	for part := range lost.Parts() {
		var requeued []string
		err := s.db.Within(ctx, part.Organizations, func(tx *sqlx.Tx) error {
			requeued = requeued[:0]
			return tx.SelectContext(ctx, &requeued, requeueQuery, pq.Array(part.Runs), rundb.EndedLost)
		})
		if err != nil {
			return orgs, fmt.Errorf("requeueing lost runs: %w", err)
		}
		orgs = append(orgs, requeued...)
	}

	return orgs, nil
}

// requeueQuery requeues lost runs and records that their attempts were lost. It checks the lease
// again under the lock, because the worker may have renewed it.
var requeueQuery = `WITH lost AS (
	  UPDATE open_runs SET status = 'queued', dispatched = false, lease_until = NULL, fence = fence + 1, deaths = deaths + 1
	  WHERE run_id IN (SELECT run_id FROM open_runs WHERE run_id = ANY ($1) AND status = 'running' AND lease_until < clock_timestamp()
	    ORDER BY run_id FOR UPDATE SKIP LOCKED)
	  RETURNING run_id, org_id, fence - 1 AS fence, attempts, started_at
	), noted AS (` + noteEnd("lost", "'lost'", "NULL", "$2") + `)
	SELECT org_id FROM lost`

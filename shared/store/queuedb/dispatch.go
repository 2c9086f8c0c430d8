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
)

// DispatchNext dispatches waiting runs into freed slots and returns their jobs, which the caller
// publishes. A freed slot goes to the waiting organization with the fewest dispatched runs in the
// lane. If DispatchNext returns an error, it also returns the jobs of the runs that it has
// dispatched. If the process dies before this call, the sweeper dispatches the runs.
func (s *Store) DispatchNext(ctx context.Context, freed FreedSlots) ([]domain.Job, error) {
	if len(freed) == 0 {
		return nil, nil
	}

	// The freed slots must count as free even if the following refresh makes no new count.
	s.slots.free(freed)
	s.slots.refresh(ctx, domain.Lanes...)
	for lane, f := range freed {
		if f.Waiting {
			s.slots.markWaiting(lane)
		}
	}

	// Each freed slot is filled once. Slots for which no organization waits stay free for new runs.
	var next []domain.Job
	for _, lane := range domain.Lanes {
		n := 0
		for of, f := range freed {
			if of.Lane == lane {
				n += f.Slots
			}
		}
		jobs, err := s.dispatch(ctx, n, func(n int) map[Lane]int { return s.slots.pass(lane, n) })
		next = append(next, jobs...)
		if err != nil {
			return next, err
		}
	}

	more, err := s.dispatchFollowers(ctx, freed, next)
	return append(next, more...), err
}

// dispatchFollowers dispatches runs that waited for a finished run of their session and got no
// freed slot. These runs belong to other lanes, or are further runs that waited for the same run.
// The argument next contains the jobs of the runs that got the freed slots.
func (s *Store) dispatchFollowers(ctx context.Context, freed FreedSlots, next []domain.Job) ([]domain.Job, error) {
	left := freed.left(next)
	var out []domain.Job
	for _, lane := range domain.Lanes {
		n, others := 0, []Lane{}
		for org, l := range left {
			other := Lane{org, lane}
			if l.runs > 0 && (l.branches || freed[other].Slots == 0) {
				n, others = n+l.runs, append(others, other)
			}
		}
		if n == 0 {
			continue
		}

		s.slots.refresh(ctx, lane)
		s.slots.markWaiting(others...)
		jobs, err := s.dispatch(ctx, n, func(n int) map[Lane]int { return s.slots.topUp(lane, n) })
		out = append(out, jobs...)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// leftRuns contains the number of an organization's runs that may start because other runs have
// finished, but have not been dispatched. The field branches is true if the number of followers is
// greater than the number of dispatched runs.
type leftRuns struct {
	runs     int
	branches bool
}

// left returns the remaining runs of each organization, after the runs of the given jobs got the
// freed slots.
func (f FreedSlots) left(next []domain.Job) map[string]leftRuns {
	slots, followers, dispatched := map[string]int{}, map[string]int{}, map[string]int{}
	for lane, freed := range f {
		if freed.Waiting || freed.Followers > 0 {
			slots[lane.OrganizationID] += freed.Slots
			followers[lane.OrganizationID] += freed.Followers
		}
	}
	for _, job := range next {
		dispatched[job.OrganizationID]++
	}

	out := map[string]leftRuns{}
	for org := range slots {
		out[org] = leftRuns{
			runs:     max(slots[org], followers[org]) - dispatched[org],
			branches: followers[org] > dispatched[org],
		}
	}
	return out
}

// DispatchWaiting dispatches waiting runs of all lanes into free slots, at most maxTopUp per lane,
// and returns their jobs. Before that, it releases delayed runs whose time has arrived. The sweeper
// calls it periodically, so that no run waits forever after a process has died.
func (s *Store) DispatchWaiting(ctx context.Context) ([]domain.Job, error) {
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

	// The lanes are those with waiting runs, including lanes without free slots.
	lanes := make([]Lane, len(rows))
	for i, r := range rows {
		lanes[i] = Lane(r)
	}

	return s.TopUp(ctx, lanes)
}

// TopUp counts the slots and dispatches waiting runs of the lanes into free slots, at most maxTopUp
// per lane. It may leave free slots to other processes, so a caller that got jobs should call it
// again.
func (s *Store) TopUp(ctx context.Context, lanes []Lane) ([]domain.Job, error) {
	if len(lanes) == 0 {
		return nil, nil
	}

	// The caller expects that slots are free now, so count again instead of using an older
	// estimate.
	s.slots.forget()
	s.slots.refresh(ctx)
	s.slots.markWaiting(lanes...)

	var next []domain.Job
	for _, lane := range domain.Lanes {
		jobs, err := s.dispatch(ctx, maxTopUp, func(n int) map[Lane]int { return s.slots.topUp(lane, n) })
		next = append(next, jobs...)
		if err != nil {
			return next, err
		}
	}
	return next, nil
}

// maxTopUp bounds the runs of one lane that TopUp dispatches, so that its statements are short.
const maxTopUp = 1024

// dispatchQuery dispatches up to $3 waiting runs of each lane ($1, $2) and returns their jobs. A
// job counts as lost after the interval $4.
const dispatchQuery = `SELECT ` + jobColumns + ` FROM dispatch_runs($1, $2, $3, $4) o`

// dispatch dispatches up to n waiting runs and returns their jobs. It calls the function take to
// reserve slots for them. Slots for which an organization has no run go to other organizations.
func (s *Store) dispatch(ctx context.Context, n int, take func(n int) map[Lane]int) ([]domain.Job, error) {
	var next []domain.Job
	for n > 0 {
		taken := take(n)
		if len(taken) == 0 {
			break
		}
		dispatched, err := s.dispatchTaken(ctx, taken)
		next = append(next, dispatched...)
		if err != nil {
			return next, err
		}

		// The slots of organizations with too few waiting runs are offered to other organizations.
		used := map[Lane]int{}
		for _, job := range dispatched {
			used[Lane{job.OrganizationID, job.Lane}]++
		}
		n = s.slots.releaseUnused(taken, used)
	}
	return next, nil
}

// dispatchTaken dispatches one waiting run for each taken slot and returns their jobs. If it fails,
// it returns the slots.
func (s *Store) dispatchTaken(ctx context.Context, taken map[Lane]int) ([]domain.Job, error) {
	// The statement takes parallel arrays that contain each lane and the number of runs to dispatch
	// in the lane.
	var lanes []Lane
	var numbers []int64
	for lane, n := range taken {
		lanes, numbers = append(lanes, lane), append(numbers, int64(n))
	}

	var rows []jobRow
	orgs, names := laneArrays(lanes)
	if err := s.dispatches.SelectInto(ctx, &rows, dispatchQuery, orgs, names, pq.Array(numbers), FirstRepublish); err != nil {
		s.slots.releaseUnused(taken, nil)
		return nil, fmt.Errorf("dispatching waiting runs: %w", err)
	}
	return jobs(rows), nil
}

// laneArrays returns the lanes as two parallel SQL arrays.
func laneArrays(lanes []Lane) (orgs, names any) {
	return pq.Array(pg.Column(lanes, func(l *Lane) string { return l.OrganizationID })),
		pq.Array(pg.Column(lanes, func(l *Lane) string { return string(l.Lane) }))
}

// releaseDelayed makes the delayed runs whose time has come eligible for dispatch.
func (s *Store) releaseDelayed(ctx context.Context) error {
	// If a statement releases the maximum number of runs, more runs may be due. The loop stops
	// after RoundTime, and the next sweep continues.
	for until := time.Now().Add(pg.RoundTime); ; {
		var n int
		if err := s.db.GetContext(ctx, &n, `SELECT release_delayed_runs($1)`, pg.MaxPart); err != nil {
			return fmt.Errorf("releasing delayed runs: %w", err)
		}
		if n < pg.MaxPart || time.Now().After(until) {
			return nil
		}
	}
}

// Overdue is a dispatched run that no worker has claimed in time.
type Overdue struct {
	Job          domain.Job
	DispatchedAt time.Time
}

// OverdueJobs reads up to limit dispatched runs that no worker has claimed in time. It changes
// nothing. The caller passes the runs to Redispatch.
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

// Redispatch prepares the jobs of overdue runs for publication. The argument "again" contains the
// runs to publish. If such a run is still unclaimed, Redispatch raises its dispatch number, doubles
// the time until its next check (to at most five minutes), and returns its job. The argument
// "later" contains runs whose jobs the stream still holds. Redispatch only postpones their next
// check. Redispatch skips runs that another sweeper has redispatched. If it returns an error, it
// also returns the jobs of the transactions that succeeded.
func (s *Store) Redispatch(ctx context.Context, again, later []Overdue) ([]domain.Job, error) {
	var next []domain.Job
	for len(again)+len(later) > 0 {
		// Workers may be claiming the same runs, so use small transactions, which hold row locks
		// only briefly.
		a, l := min(len(again), pg.MaxPart), min(len(later), pg.MaxPart)
		redispatched, err := s.redispatch(ctx, again[:a], later[:l])
		next = append(next, redispatched...)
		if err != nil {
			return next, err
		}
		again, later = again[a:], later[l:]
	}
	return next, nil
}

// redispatch implements Redispatch in one transaction.
func (s *Store) redispatch(ctx context.Context, again, later []Overdue) ([]domain.Job, error) {
	runID := func(o *Overdue) string { return o.Job.RunID }
	orgs := pg.Column(slices.Concat(again, later), func(o *Overdue) string { return o.Job.OrganizationID })
	var rows []jobRow
	err := s.db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		if err := tx.SelectContext(ctx, &rows, `UPDATE open_runs o SET dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
			next_dispatch_at = clock_timestamp() + least($2::interval * power(2, least(o.dispatch_no, 10)), interval '5 minutes')
			WHERE o.run_id IN (SELECT run_id FROM open_runs
			  WHERE run_id = ANY ($1) AND dispatched AND status = 'queued' AND next_dispatch_at <= clock_timestamp()
			  ORDER BY run_id FOR UPDATE SKIP LOCKED)
			RETURNING `+jobColumns, pq.Array(pg.Column(again, runID)), FirstRepublish); err != nil {
			return err
		}

		// The stream still holds these jobs, so the interval until their next check does not grow.
		_, err := tx.ExecContext(ctx, `UPDATE open_runs SET next_dispatch_at = clock_timestamp() + $2::interval
			WHERE run_id IN (SELECT run_id FROM open_runs
			  WHERE run_id = ANY ($1) AND dispatched AND status = 'queued' ORDER BY run_id FOR UPDATE SKIP LOCKED)`,
			pq.Array(pg.Column(later, runID)), FirstRepublish)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("redispatching runs: %w", err)
	}

	return jobs(rows), nil
}

// RepublishAll marks all dispatched, unclaimed runs as overdue, so that their jobs are published
// again. Call it if the stream with the job messages was lost. Runs that another transaction has
// locked are skipped.
func (s *Store) RepublishAll(ctx context.Context) error {
	var orgs []string
	if err := s.db.SelectContext(ctx, &orgs, `SELECT org_id FROM dispatched_organizations()`); err != nil {
		return fmt.Errorf("looking for dispatched runs: %w", err)
	}
	return s.db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE open_runs SET next_dispatch_at = clock_timestamp()
			WHERE run_id IN (SELECT run_id FROM open_runs WHERE dispatched AND status = 'queued' ORDER BY run_id FOR UPDATE SKIP LOCKED)`)
		if err != nil {
			return fmt.Errorf("scheduling dispatched runs for republication: %w", err)
		}
		return nil
	})
}

// Backlog returns the number of queued runs of each organization. It counts no more runs in total
// than the given maximum. Organizations without queued runs are missing in the result.
func (s *Store) Backlog(ctx context.Context, maximum int) (map[string]int, error) {
	var rows []struct {
		OrganizationID string `db:"org_id"`
		Runs           int    `db:"runs"`
	}
	if err := s.db.SelectContext(ctx, &rows, `SELECT org_id, runs FROM count_backlogs($1)`, maximum); err != nil {
		return nil, fmt.Errorf("counting backlog: %w", err)
	}
	out := make(map[string]int, len(rows))
	for _, r := range rows {
		out[r.OrganizationID] = r.Runs
	}
	return out, nil
}

// jobRow is a row of jobColumns.
type jobRow struct {
	RunID          string `db:"run_id"`
	OrganizationID string `db:"org_id"`
	Lane           string `db:"lane"`
	Dedupe         string `db:"dedupe"`
	DispatchNo     int    `db:"dispatch_no"`
	ReplyTo        string `db:"reply_to"`
	Traceparent    string `db:"traceparent"`
}

// jobColumns lists the columns of open_runs o from which a job message is made.
const jobColumns = `o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent`

// jobs converts rows to job messages, in the same order.
func jobs(rows []jobRow) []domain.Job {
	out := make([]domain.Job, len(rows))
	for i, r := range rows {
		out[i] = domain.Job{
			RunID: r.RunID, OrganizationID: r.OrganizationID, Lane: domain.Lane(r.Lane), Dedupe: r.Dedupe,
			DispatchNo: r.DispatchNo, ReplyTo: r.ReplyTo, Traceparent: r.Traceparent,
		}
	}
	return out
}

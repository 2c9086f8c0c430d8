package executiondb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
)

// Outcome is a run's final state. It is written under the fence of the attempt that produced it. If
// another attempt has started meanwhile, the database ignores the outcome.
type Outcome struct {
	OrganizationID string
	Fence          int64
	Run            domain.Run // in a terminal state, with FinishedAt set
	Result         []byte     // the rendered Run
	Events         Chunk      // the attempt's events that no checkpoint contains
	EndN           int        // the number of the terminal event, which is not in Events

	endFence int64 // fence of the terminal event, if higher than the attempt's fence; otherwise 0
}

// NewOutcome renders the terminal run of a worker. The outcome has no events; the caller sets
// Events and EndN.
func NewOutcome(held lease.Held, run domain.Run) (Outcome, error) {
	result, err := run.Render()
	return Outcome{OrganizationID: held.OrganizationID, Fence: held.Fence, Run: run, Result: result}, err
}

// Size is the approximate number of bytes that the outcome adds to a statement.
func (e Outcome) Size() int {
	return len(e.Result) + len(pg.Deref(e.Run.Message)) + len(e.Events.Events) + 512
}

// MaxBatchBytes is the approximate number of bytes of results or events that one statement writes.
// A statement needs several times as much memory, and all runs of the batch wait for its commit. An
// outcome above the limit is written alone.
const MaxBatchBytes = 4 << 20

// countFitting returns the number of leading rows that one statement may write, at least one.
func countFitting[T any](rows []T, size func(T) int) int {
	// The first row is always counted, so that a row above the limit is written alone.
	bytes := 0
	for i, r := range rows {
		if bytes += size(r); bytes > MaxBatchBytes && i > 0 {
			return i
		}
	}
	return len(rows)
}

// Finished is the result of saving outcomes, with run ids as keys. If a run is in none of Saved,
// Rejected and Failed, its worker no longer holds the run, and nothing was written for it.
type Finished struct {
	// Saved contains the runs whose outcome is committed.
	Saved    map[string]bool    // by run id
	Rejected map[string]error   // PostgreSQL will never store these outcomes
	Failed   map[string]error   // not saved this time; ErrLocked: another transaction has locked the run
	Freed    queuedb.FreedSlots // for DispatchNext

	followers map[string]int // number of runs that waited only for the finished run with this id
}

// newFinished returns a result with empty maps.
func newFinished() Finished {
	return Finished{
		Saved: map[string]bool{}, Rejected: map[string]error{}, Failed: map[string]error{}, Freed: queuedb.FreedSlots{},
		followers: map[string]int{},
	}
}

// fail adds the outcomes, which were not saved, to Failed with the error err.
func (f *Finished) fail(outcomes []Outcome, err error) {
	for _, e := range outcomes {
		f.Failed[e.Run.ID] = err
	}
}

// finishQuery saves a batch of outcomes. end_lane_runs is defined in
// migrations/functions/end_lane_runs.sql.
const finishQuery = `SELECT run_id, org_id, lane, place, followers FROM end_lane_runs($1, $2, $3)`

// Finish saves outcomes, at most one per run, with statements that write about MaxBatchBytes each.
// In the same transaction, each saved run is closed and frees the slot of its lane. If Finish
// returns an error, it has saved no outcome.
//
// The outcomes in Failed can be saved again. After a lost reply the caller repeats Finish; a run
// that was already saved is then in none of the maps.
func (s *Store) Finish(ctx context.Context, outcomes []Outcome) (Finished, error) {
	out := newFinished()

	// If PostgreSQL rejects an outcome, several statements are needed to find it, and each may wait
	// for a lock. The time until bounds their total duration.
	until := time.Now().Add(pg.SplitFor)
	for rest := outcomes; len(rest) > 0; {
		n := countFitting(rest, Outcome.Size)
		if err := s.finishPart(ctx, rest[:n], &out, until); err != nil {
			// Earlier parts are committed and must be reported, so only the first part may return
			// an error.
			if len(rest) == len(outcomes) {
				return Finished{}, err
			}
			out.fail(rest, err)
			return out, nil
		}
		rest = rest[n:]
	}

	return out, nil
}

// finishPart saves the outcomes of one statement and adds the results to out. If PostgreSQL rejects
// an outcome or a run is locked, finishPart halves the list until it finds the cause. All other
// outcomes are saved. If a run is locked after the time until, finishPart adds all outcomes of the
// list to Failed without halving it. If it returns an error, it has saved no outcome.
func (s *Store) finishPart(ctx context.Context, outcomes []Outcome, out *Finished, until time.Time) error {
	err := s.saveOutcomes(ctx, outcomes, out)
	switch {
	case pg.IsLocked(err) && (len(outcomes) == 1 || time.Now().After(until)):
		out.fail(outcomes, pg.ErrLocked)
		return nil
	case !pg.IsBadData(err) && !pg.IsLocked(err):
		return err
	case len(outcomes) == 1:
		out.Rejected[outcomes[0].Run.ID] = err
		return nil
	}

	half := len(outcomes) / 2
	if err := s.finishPart(ctx, outcomes[:half], out, until); err != nil {
		return err
	}

	// The first half may have been saved, so an error of the second half is recorded only for the
	// outcomes of that half.
	if err := s.finishPart(ctx, outcomes[half:], out, until); err != nil {
		out.fail(outcomes[half:], err)
	}

	return nil
}

// saveOutcomes saves outcomes with one statement. After a batch in which a run was locked,
// saveOutcomes first locks the runs, and omits the runs that another transaction has locked.
func (s *Store) saveOutcomes(ctx context.Context, outcomes []Outcome, out *Finished) error {
	// Usually no run is locked. In this case a single statement on the reserved connection
	// suffices, without an explicit transaction.
	if !s.finishes.SkipsLocked() {
		done, err := finish(outcomes, func(dest any, query string, args ...any) error {
			return s.finishes.SelectInto(ctx, dest, query, args...)
		})
		if !pg.IsLocked(err) {
			out.add(done)
			return err
		}
	}

	// The transaction with a separate lock statement is slower, but a locked run does not delay the
	// other runs.
	var done Finished
	var locked map[string]bool
	orgs := pg.Column(outcomes, func(e *Outcome) string { return e.OrganizationID })
	err := s.db.WithinBriefly(ctx, orgs, pg.PartLockTimeout, func(tx *sqlx.Tx) (err error) {
		locked, err = lockOpenRuns(ctx, tx, pg.Column(outcomes, func(e *Outcome) string { return e.Run.ID }))
		if err != nil {
			return err
		}

		free := slices.DeleteFunc(slices.Clone(outcomes), func(e Outcome) bool { return locked[e.Run.ID] })
		done, err = finish(free, func(dest any, query string, args ...any) error { return tx.SelectContext(ctx, dest, query, args...) })
		return err
	})

	// The next batches lock their runs first, so that they do not wait for a locked run.
	if pg.IsLocked(err) || len(locked) > 0 {
		s.finishes.MetLocked()
	}

	if err != nil {
		return err
	}

	out.add(done)
	for id := range locked {
		out.Failed[id] = pg.ErrLocked
	}

	return nil
}

// add adds the runs that a committed statement has saved, and the slots that it has freed, to the
// result.
func (f *Finished) add(part Finished) {
	maps.Copy(f.Saved, part.Saved)
	for lane, freed := range part.Freed {
		f.Freed.Add(lane, freed)
	}
}

// finish saves the outcomes. It calls the function run with statements that write about
// MaxBatchBytes each. run executes them on a connection or in a transaction. The result has no
// entry for a run that its worker no longer holds.
func finish(outcomes []Outcome, run func(dest any, query string, args ...any) error) (Finished, error) {
	out := newFinished()
	for len(outcomes) > 0 {
		n := countFitting(outcomes, Outcome.Size)
		var closed []closedRow
		if err := run(&closed, finishQuery, finishArgs(outcomes[:n])...); err != nil {
			return Finished{}, fmt.Errorf("saving results: %w", err)
		}
		for _, c := range closed {
			out.Saved[c.RunID] = true
			out.followers[c.RunID] = c.Followers
			out.Freed.Add(queuedb.Lane{OrganizationID: c.OrganizationID, Lane: domain.Lane(c.Lane)},
				queuedb.Freed{Slots: 1, Waiting: c.Waiting, Followers: c.Followers})
		}
		outcomes = outcomes[n:]
	}

	return out, nil
}

// finishArgs returns the arguments of finishQuery for these outcomes: the rows as text, the list of
// organizations, and whether any outcome has events.
func finishArgs(outcomes []Outcome) []any {
	// The statement skips its part for events if no outcome has events. It needs a list of the
	// organizations, to limit its access to their rows.
	bytes, hasEvents := 0, false
	organizations := make([]string, 0, 4)
	order := make([]*Outcome, len(outcomes))
	for i := range outcomes {
		e := &outcomes[i]
		order[i] = e
		bytes += len(e.Result) + len(e.Events.Events)
		hasEvents = hasEvents || e.Events.FirstN > 0
		if !slices.Contains(organizations, e.OrganizationID) {
			organizations = append(organizations, e.OrganizationID)
		}
	}

	// Rows are locked in the order of their ids, so that two batches cannot deadlock.
	slices.SortFunc(order, func(a, b *Outcome) int { return strings.Compare(a.Run.ID, b.Run.ID) })

	// The estimate doubles the size of the texts, because escaping lengthens them.
	t := pg.NewTuples(len(outcomes), 2*bytes/max(1, len(outcomes))+512)
	for _, e := range order {
		t.Next()
		t.Text(e.Run.ID)
		t.Int(e.Fence)
		t.Text(string(e.Run.Status))
		t.Text(string(e.Result))
		t.Optional(pg.Deref(e.Run.Message))
		t.Int(int64(e.Run.Attempts))
		t.Int(e.Run.Usage.InputTokens)
		t.Int(e.Run.Usage.OutputTokens)
		t.Int(e.Run.Usage.CostMicros)
		t.Time(e.Run.FinishedAt)
		t.Time(e.Run.ExpiresAt)
		t.Time(e.Run.StartedAt)
		// The terminal event of a run that its worker did not finish has a higher fence than the
		// worker's events. Readers therefore ignore events that the worker publishes later.
		t.Int(max(e.Fence, e.endFence))
		t.Int(int64(e.EndN))
		t.Positive(e.sandboxMs())
		t.Positive(int64(e.Events.FirstN))
		t.Int(int64(e.Events.LastN))
		t.Text(e.Events.Events)
		t.Done()
	}

	return []any{t.String(), pq.Array(organizations), hasEvents}
}

// codeTool is the name of the tool that executes code. It must be equal to the name in package
// contract.
const codeTool = "codeExecution"

// sandboxMs is the total duration of the run's code executions, in milliseconds.
func (e Outcome) sandboxMs() (ms int64) {
	for _, call := range e.Run.ToolCalls {
		if call.Name == codeTool {
			ms += call.DurationMS
		}
	}
	return ms
}

// closedRow is a row of finishQuery: a run that was finished.
type closedRow struct {
	RunID          string `db:"run_id"`
	OrganizationID string `db:"org_id"`
	Lane           string `db:"lane"`
	Waiting        bool   `db:"place"`     // runs of its organization may be waiting
	Followers      int    `db:"followers"` // number of runs that waited only for this run
}

// Journal appends step n, a JSON value, to a run under a fence. The next attempt of the run
// continues after its last step. Journal returns false, and writes nothing, if the worker no longer
// holds the run.
func (s *Store) Journal(ctx context.Context, held lease.Held, n int, step []byte) (bool, error) {
	out, err := s.progress.write(ctx, &progressWrite{Held: held, kind: writeStep, n: n, content: step})
	if err != nil {
		return false, fmt.Errorf("writing journal: %w", err)
	}
	return out.done, nil
}

// Steps reads the journal of a run: its steps in order. It returns no steps for an unknown or
// erased run.
func (s *Store) Steps(ctx context.Context, org, runID string) ([][]byte, error) {
	var steps [][]byte
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		steps = nil
		return tx.SelectContext(ctx, &steps, `SELECT step FROM steps WHERE run_id = $1 AND org_id = $2 ORDER BY n`, runID, org)
	})
	if err != nil {
		return nil, fmt.Errorf("reading journal: %w", err)
	}
	return steps, nil
}

// Journals reads the journals of runs, by run id: the steps of each run, in order. The result has
// at most the given number of bytes. If the journals are larger, the oldest steps are left out.
func (s *Store) Journals(ctx context.Context, org string, runIDs []string, bytes int) (map[string][][]byte, error) {
	var rows []struct {
		RunID string `db:"run_id"`
		Step  []byte `db:"step"`
	}
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, `SELECT run_id, step FROM (
			SELECT run_id, n, step, sum(octet_length(step::text)) OVER (ORDER BY run_id DESC, n DESC) AS total
			FROM steps WHERE run_id = ANY ($1) AND org_id = $2) newest WHERE total <= $3 ORDER BY run_id, n`, pq.Array(runIDs), org, bytes)
	})
	if err != nil {
		return nil, fmt.Errorf("reading journals: %w", err)
	}
	steps := make(map[string][][]byte, len(runIDs))
	for _, row := range rows {
		steps[row.RunID] = append(steps[row.RunID], row.Step)
	}
	return steps, nil
}

// KeepToolSet stores a run's tool set, a JSON value. The tool set is stored apart from the steps,
// because binaries of the previous release read all steps. KeepToolSet does not replace an existing
// tool set. KeepToolSet returns false, and writes nothing, if the worker no longer holds the run.
func (s *Store) KeepToolSet(ctx context.Context, held lease.Held, tools []byte) (bool, error) {
	var kept bool
	err := s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) (err error) {
		kept, err = pg.AnyRow(tx.ExecContext(ctx, `UPDATE open_runs SET tool_set = coalesce(tool_set, $4)
			WHERE run_id = $1 AND org_id = $2 AND fence = $3 AND status = 'running'`, held.RunID, held.OrganizationID, held.Fence, tools))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("writing tool set: %w", err)
	}

	return kept, nil
}

// ToolSet reads the tool set that KeepToolSet has stored for an open run. It returns nil if no tool
// set is stored.
func (s *Store) ToolSet(ctx context.Context, org, runID string) ([]byte, error) {
	var tools []byte
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return pg.IgnoreNone(tx.GetContext(ctx, &tools, `SELECT tool_set FROM open_runs WHERE run_id = $1 AND org_id = $2`, runID, org))
	})
	if err != nil {
		return nil, fmt.Errorf("reading tool set: %w", err)
	}
	return tools, nil
}

// lockOpenRuns locks open runs in the order of their ids, until the end of the transaction. It
// waits for no lock, and returns the runs that another transaction has locked. Runs that are not
// open are ignored.
func lockOpenRuns(ctx context.Context, tx *sqlx.Tx, runs []string) (map[string]bool, error) {
	var locked []string
	err := tx.SelectContext(ctx, &locked, `WITH free AS MATERIALIZED (
		  SELECT o.run_id FROM open_runs o JOIN runs r ON r.id = o.run_id WHERE o.run_id = ANY ($1)
		  ORDER BY o.run_id FOR UPDATE OF o, r SKIP LOCKED)
		SELECT run_id FROM open_runs o WHERE run_id = ANY ($1) AND NOT EXISTS (SELECT FROM free f WHERE f.run_id = o.run_id)`, pq.Array(runs))
	if err != nil {
		return nil, fmt.Errorf("locking runs: %w", err)
	}

	out := make(map[string]bool, len(locked))
	for _, id := range locked {
		out[id] = true
	}

	return out, nil
}

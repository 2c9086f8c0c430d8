package store_test

import (
	"slices"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// chat returns a run in the lane of chats.
func (b *testEnv) chat() queuedb.NewRun {
	r := b.run("", "")
	r.Lane = domain.LaneChat
	return r
}

// many returns a list with the given number of new runs.
func (b *testEnv) many(n int, newRun func() queuedb.NewRun) []queuedb.NewRun {
	out := []queuedb.NewRun{}
	for range n {
		out = append(out, newRun())
	}
	return out
}

func (b *testEnv) automation() queuedb.NewRun { return b.run("", "") }

func dispatched(accepted []queuedb.Accepted) (n int) {
	for _, a := range accepted {
		if a.Job != nil {
			n++
		}
	}
	return n
}

// meter is a test environment that counts how many index entries the database reads.
type meter struct {
	*testEnv
	dsn string
}

func newMeter(t *testing.T) *meter {
	t.Helper()
	dsn := testkit.Postgres(t)
	s, raw := openAt(t, dsn)
	return &meter{newEnvOn(t, s, raw, "ada@example.com"), dsn}
}

// read returns the number of index entries of open_runs, including dead ones, that the database
// reads while f runs.
func (m *meter) read(f func()) int {
	m.Helper()
	before := m.total()
	f()
	return m.total() - before
}

// total returns the number of reads up to now. A connection reports its reads when it is closed, so
// total closes the store and opens it again.
func (m *meter) total() (n int) {
	m.Helper()
	if err := m.s.Close(); err != nil {
		m.Fatal(err)
	}
	for open := 1; open > 0; {
		if err := m.raw.QueryRowContext(m.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'parley'`).Scan(&open); err != nil {
			m.Fatal(err)
		}
	}
	m.s, _ = openAt(m.T, m.dsn)
	err := m.raw.QueryRowContext(m.Context(), `SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE relname = 'open_runs'`).Scan(&n)
	if err != nil {
		m.Fatal(err)
	}
	return n
}

// Chats have separate slots, so automations of the same organization do not delay them.
func TestChatsDoNotWaitForAutomations(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const limit = 4
	if n := dispatched(b.accept(limit, b.many(50, b.automation)...)); n != limit {
		t.Fatalf("%d automations were dispatched, want %d", n, limit)
	}
	if n := dispatched(b.accept(limit, b.many(3, b.chat)...)); n != 3 {
		t.Errorf("%d of 3 chats were dispatched beside automations", n)
	}
}

// A freed slot goes to the next run of its lane, even if runs of another lane wait.
func TestFreedSlotGoesToItsLane(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const limit = 2
	automations := b.accept(limit, b.many(6, b.automation)...)
	chats := b.accept(limit, b.many(4, b.chat)...)
	next := b.finishAndNext(b.mustClaim(chats[0].Run.Run.ID), "done", limit)
	wantIDs(t, "after a chat", next, chats[2].Run.Run.ID)
	next = b.finishAndNext(b.mustClaim(automations[0].Run.Run.ID), "done", limit)
	wantIDs(t, "after an automation", next, automations[2].Run.Run.ID)
	next = b.finishAndNext(b.mustClaim(chats[1].Run.Run.ID), "done", limit)
	wantIDs(t, "after another chat", next, chats[3].Run.Run.ID)
}

// While all slots are taken, a freed slot goes to the organization with the fewest dispatched runs.
// An organization without runs gets a reserve slot.
func TestFreedSlotsGoToOtherOrganizations(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	other := newEnvOn(t, b.s, b.raw, "grace@example.com")
	const limit = 8
	flood := b.accept(limit, b.many(40, b.automation)...)
	if n := dispatched(flood); n != limit {
		t.Fatalf("%d runs of the first organization were dispatched, want %d", n, limit)
	}

	other.slots = limit
	if n := dispatched(other.accept(limit, other.many(6, other.automation)...)); n != queuedb.Reserve(limit) {
		t.Errorf("%d runs of the second organization were dispatched into the reserve, want %d", n, queuedb.Reserve(limit))
	}

	// The next dispatch counts the runs again. The first slots that are freed become reserve slots
	// again.
	other.slots = 0
	other.setSlots(limit)
	var next []domain.Job
	for i := range queuedb.Reserve(limit) + 3 {
		next = append(next, b.finishAndNext(b.mustClaim(flood[i].Run.Run.ID), "done", limit)...)
	}
	if len(next) < 3 || slices.ContainsFunc(next, func(job domain.Job) bool { return job.OrganizationID != other.org }) {
		t.Errorf("freed slots went to %+v, want at least 3 runs, all of the second organization", next)
	}
}

// If a run waits for a run of its session in another lane, it is dispatched when the other run
// finishes.
func TestSlotOfAnotherLaneDispatchesTheSessionsNextRun(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	first, second := b.run("", "s"), b.run("", "s")
	first.Lane = domain.LaneChat
	accepted := b.accept(4, first, second)
	if dispatched(accepted) != 1 {
		t.Fatalf("%+v", accepted)
	}
	wantIDs(t, "dispatched", b.finishAndNext(b.mustClaim(first.ID), "done", 4), second.ID)
}

// Delayed runs do not count as waiting: neither finishing a run nor the sweeper reads them.
func TestDelayedRunsAreNotWaiting(t *testing.T) {
	t.Parallel()
	b := newMeter(t)
	b.exec(`INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dedupe, reply_to, traceparent,
			deadline, not_before)
		SELECT 'run_0' || s, $1, $2, 1000000 + s, 1, 'automation', 'queued', false, 0, '', '', '', now() + interval '1 day', 'infinity'
		FROM generate_series(1, 3000) s`, b.org, b.agent)
	work := func() {
		for range 20 {
			run := b.accept(wideWindow, b.automation())[0].Run.Run.ID
			if next := b.finishAndNext(b.mustClaim(run), "done", wideWindow); len(next) > 0 {
				t.Errorf("dispatched %v", ids(next))
			}
			if jobs, err := b.s.Queue.DispatchWaiting(t.Context()); err != nil || len(jobs) > 0 {
				t.Errorf("the sweeper dispatched %v, %v", ids(jobs), err)
			}
		}
	}
	if n := b.read(work); n > 20*500 {
		t.Errorf("20 runs beside 3,000 delayed ones read %d index entries", n)
	}
}

// When the time of a delayed run arrives, the run waits for a slot.
func TestDelayedRunIsDispatchedInTime(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	run := b.mustClaim(b.accept(wideWindow, b.automation())[0].Run.Run.ID)
	cause := &domain.RunError{Code: "x", Message: "m"}
	if back := b.requeue(executiondb.Requeue{Held: run.Held(), Backoff: 50 * time.Millisecond, Cause: cause}); !back.Done {
		t.Fatalf("requeued = %+v, want done", back)
	}
	b.exec(`UPDATE open_runs SET not_before = clock_timestamp() - interval '1 second'`)
	jobs, err := b.s.Queue.DispatchWaiting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "dispatched", jobs, run.RunID)
}

// While a transaction holds a snapshot, the dead index entries of all later runs remain. Accepting,
// finishing and dispatching runs reads few of these entries.
func TestLongSnapshotDoesNotSlowDispatch(t *testing.T) {
	t.Parallel()
	b := newMeter(t)
	const limit, runs, measured = 8, 1200, 40
	snapshot, err := b.raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snapshot.Rollback() }()
	for _, query := range []string{`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM open_runs`} {
		if _, err := snapshot.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	flood := func(n int) { // accepts n runs and finishes each run before it accepts the next
		jobs := []domain.Job{}
		for _, a := range b.accept(limit, b.many(n, b.automation)...) {
			if a.Job != nil {
				jobs = append(jobs, *a.Job)
			}
		}
		for len(jobs) > 0 {
			job := jobs[0]
			jobs = append(jobs[1:], b.finishAndNext(b.mustClaim(job.RunID), "done", limit)...)
		}
	}
	for range runs / (4 * limit) {
		flood(4 * limit) // three times as many runs wait as there are slots
		b.look()
	}
	n := b.read(func() {
		for range measured / limit {
			flood(limit)
		}
	})
	t.Logf("%d entries a run", n/measured)
	// Claiming, finishing and accepting a run find its rows by keys. Together they read about ten
	// index entries.
	if n > measured*runs/4 {
		t.Errorf("%d runs beside a snapshot that is %d runs old read %d index entries", measured, runs, n)
	}
	// The sweeper looks for waiting runs once a second. It may read each dead index entry once, and
	// each run leaves a few such entries in every index.
	n = b.read(b.look)
	t.Logf("%d entries a look", n)
	if n > 10*runs {
		t.Errorf("a look of the sweeper beside a snapshot that is %d runs old reads %d index entries", runs, n)
	}
}

// look makes the sweeper look for waiting runs once.
func (b *testEnv) look() {
	b.Helper()
	if _, err := b.s.Queue.DispatchWaiting(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// The sweeper corrects errors that a crash or a race has left in waiting_lanes.
func TestWaitingLanesRepairThemselves(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	accepted := b.accept(1, b.many(4, b.automation)...)
	b.exec(`DELETE FROM waiting_lanes`)
	b.exec(`INSERT INTO waiting_lanes VALUES ($1, 'chat', 'run_z')`, b.org)
	first := b.mustClaim(accepted[0].Run.Run.ID)
	b.exec(`UPDATE open_runs SET dispatched = false WHERE run_id = $1`, first.RunID) // simulates a lost slot
	jobs, err := b.s.Queue.DispatchWaiting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "dispatched", jobs, accepted[1].Run.Run.ID)
	if got := b.text(`SELECT string_agg(lane || ' ' || oldest, ' ') FROM waiting_lanes`); got != "automation "+accepted[1].Run.Run.ID {
		t.Errorf("waiting_lanes has %s", got)
	}
	b.exec(`UPDATE waiting_lanes SET oldest = 'run_z'`)
	b.setSlots(wideWindow)
	b.look()
	next := b.finishAndNext(b.mustClaim(accepted[2].Run.Run.ID), "done", wideWindow)
	if len(next) != 0 {
		t.Errorf("dispatched %v", ids(next))
	}
}

// Runs that were not dispatched when they were accepted are dispatched as soon as a count of the
// runs finds free slots.
func TestTopUpFillsFreeSlots(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	accepted := b.accept(2, b.many(6, b.automation)...)
	lanes := []queuedb.Lane{automationsFor(b.org)}
	if jobs, err := b.s.Queue.TopUp(t.Context(), lanes); err != nil || len(jobs) != 0 {
		t.Errorf("dispatched %v, %v where no slot was free", ids(jobs), err)
	}
	b.exec(`UPDATE worker_slots SET slots = 4`)
	jobs, err := b.s.Queue.TopUp(t.Context(), lanes)
	if err != nil {
		t.Fatal(err)
	}
	got := ids(jobs)
	slices.Sort(got)
	want := []string{accepted[2].Run.Run.ID, accepted[3].Run.Run.ID}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("dispatched %v, want %v", got, want)
	}
}

// Overdue runs of several organizations are ended alternately, so that no organization waits for a
// thousand overdue runs of another.
func TestOverdueRunsOfOrganizationsEndInTurn(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	other := newEnvOn(t, b.s, b.raw, "grace@example.com")
	b.accept(wideWindow, b.many(600, b.automation)...)
	victim := other.accept(wideWindow, other.automation())[0].Run.Run.ID
	b.exec(`UPDATE open_runs SET deadline = now() - interval '1 second'`)
	ended, err := b.s.Executions.EndOverdue(t.Context(), 300)
	if err != nil || len(ended) != 300 {
		t.Errorf("%d of 300 were ended, %v", len(ended), err)
	}
	if !slices.ContainsFunc(ended, func(e executiondb.Ended) bool { return e.RunID == victim }) {
		t.Error("another organization's run waits for the runs of the first")
	}
}

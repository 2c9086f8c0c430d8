package sweep

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store"
	"parley/shared/store/lease"
	"parley/shared/testkit"
)

// clockEnv is a test environment. It contains a run that a worker has claimed, and a sweeper that
// has read the database's clock.
type clockEnv struct {
	*testing.T
	db    *sql.DB
	store *store.Store
	sweep *Sweeper
	run   lease.Held
}

func newClockEnv(t *testing.T) *clockEnv {
	t.Helper()
	dsn := testkit.Postgres(t)
	st, b, run := dispatchedIn(t, dsn, testkit.NATS(t))
	h := &clockEnv{t, testkit.SQL(t, dsn), st, New(st, b, zerolog.Nop()), lease.Held{}}
	h.timeless()
	claims, err := st.Executions.Claim(t.Context(), []string{run.ID})
	if err != nil || claims[0].Run == nil {
		t.Fatalf("claiming: %+v, %v", claims, err)
	}
	h.run = claims[0].Run.Held()
	h.requeue()
	return h
}

// timeless removes a condition from the query for lost runs: that the server has been up for some
// time. The server of the test has just started.
func (h *clockEnv) timeless() {
	h.Helper()
	var definition string
	err := h.db.QueryRowContext(h.Context(), `SELECT pg_get_functiondef('lost_runs(bigint, interval)'::regprocedure)`).Scan(&definition)
	if err != nil {
		h.Fatal(err)
	}
	h.exec(strings.Replace(definition, "pg_postmaster_start_time() <", "'-infinity'::timestamptz <", 1))
}

func (h *clockEnv) exec(query string, args ...any) {
	h.Helper()
	if _, err := h.db.ExecContext(h.Context(), query, args...); err != nil {
		h.Fatal(err)
	}
}

func (h *clockEnv) requeue() {
	h.Helper()
	if err := h.sweep.requeueLost(h.Context()); err != nil {
		h.Fatal(err)
	}
}

// step simulates a change of the database's clock. It moves the leases, the deadlines and the last
// reading of the clock into the past.
func (h *clockEnv) step(by time.Duration) {
	h.Helper()
	h.sweep.clock.seen.Now = h.sweep.clock.seen.Now.Add(-by)
	h.exec(`UPDATE open_runs SET lease_until = lease_until - make_interval(secs => $1), deadline = deadline - make_interval(secs => $1)`, by.Seconds())
}

func (h *clockEnv) wantHeld(want bool) {
	h.Helper()
	leases, err := h.store.Executions.Extend(h.Context(), []lease.Held{h.run})
	if err != nil || leases.Extended[h.run.RunID] != want {
		h.Errorf("the worker holds its run: %v, want %v, %v", !want, want, err)
	}
}

// When the database's clock is changed, live workers keep their runs.
func TestWorkersGetTimeAfterAStepOfTheClock(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(*clockEnv){
		"the clock is set forward": func(h *clockEnv) { h.step(time.Hour) },
		"a standby with a later clock is promoted": func(h *clockEnv) {
			h.sweep.clock.seen.Started = h.sweep.clock.seen.Started.Add(-time.Minute)
			h.exec(`UPDATE open_runs SET lease_until = clock_timestamp() - interval '1 millisecond'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newClockEnv(t)
			step(h)
			h.requeue()
			h.wantHeld(true)
			h.exec(`UPDATE open_runs SET lease_until = clock_timestamp() - interval '1 second'`)
			h.requeue()
			h.wantHeld(true)
			h.exec(`UPDATE open_runs SET lease_until = clock_timestamp() - interval '1 second'`)
			h.sweep.clock.grace = time.Now() // end the grace period
			h.requeue()
			h.wantHeld(false)
		})
	}
}

// If the database's clock is set back, the run of a dead worker need not wait until the clock has
// caught up.
func TestLeasesAreShortenedWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	h := newClockEnv(t)
	h.step(-time.Hour)
	h.requeue()
	var long bool
	err := h.db.QueryRowContext(t.Context(), `SELECT lease_until > clock_timestamp() + interval '30 seconds' FROM open_runs`).Scan(&long)
	if err != nil || long {
		t.Errorf("the lease is longer than any: %v, %v", long, err)
	}
	h.wantHeld(true)
}

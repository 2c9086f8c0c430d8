package sweep

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// overdue is a test environment with a sweeper, and runs that are past their deadline.
type overdue struct {
	sweeper *Sweeper
	db      *sql.DB
}

func newOverdue(t *testing.T, number int) overdue {
	t.Helper()
	dsn := testkit.Postgres(t)
	st, b := open(t, dsn, testkit.NATS(t))
	org, agent := newAgent(t, st)
	for number > 0 {
		runs := make([]queuedb.NewRun, min(number, 1000))
		for i := range runs {
			run := id.New(id.Run)
			runs[i] = queuedb.NewRun{
				ID: run, OrganizationID: org, AgentID: agent, CallerKind: domain.CallerSystem, Principal: "system", SessionID: run, OwnSession: true,
				SessionKey: contract.Hash(run), TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Dedupe: run,
				Retention: time.Hour, Deadline: time.Hour,
			}
		}
		accepted, err := st.Queue.Accept(t.Context(), runs)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range accepted {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		number -= len(runs)
	}
	o := overdue{New(st, b, zerolog.Nop()), testkit.SQL(t, dsn)}
	if _, err := o.db.ExecContext(t.Context(), `UPDATE open_runs SET deadline = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	return o
}

// round calls a sweeper's endRuns once, and returns the number of overdue runs that remain.
func (o overdue) round(ctx context.Context, t *testing.T) (left int) {
	t.Helper()
	if err := o.sweeper.endRuns(ctx); err != nil {
		t.Fatal(err)
	}
	if err := o.db.QueryRowContext(ctx, `SELECT count(*) FROM open_runs`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	return left
}

// A sweeper ends overdue runs, except those that another sweeper has locked.
func TestSweepersShareOverdueRuns(t *testing.T) {
	t.Parallel()
	o := newOverdue(t, 900)
	other, err := o.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	if _, err := other.ExecContext(t.Context(), `SELECT FROM open_runs ORDER BY run_id LIMIT 500 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	left := 900
	for range 20 { // one round is enough, except on a very slow machine
		if left = o.round(t.Context(), t); left == 500 {
			return
		}
	}
	t.Errorf("%d runs are left, want the 500 that the other sweeper has locked", left)
}

// After an outage, a hundred thousand runs may be overdue. Sweepers end all of them within a
// minute.
func TestAHundredThousandRunsEndInTime(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	o := newOverdue(t, 100_000)
	began := time.Now()
	for left := 100_000; left > 0; {
		before := left
		if left = o.round(t.Context(), t); left == before {
			t.Fatalf("a round ended no run; %d are left", left)
		}
		t.Logf("%d runs are left after %v", left, time.Since(began).Round(time.Millisecond))
	}
	if took := time.Since(began); took > testkit.Within(time.Minute) {
		t.Errorf("100,000 overdue runs ended in %v, want at most a minute", took)
	}
}

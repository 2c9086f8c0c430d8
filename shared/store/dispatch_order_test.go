package store_test

import (
	"encoding/json"
	"slices"
	"testing"

	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
)

// queue inserts runs directly into the sessions numbered from first to last, n runs for each
// session. The first run of each session gets the state head, and all its other runs wait. The
// state is "waiting", "backoff", "parked", or "parked by the previous release", which did not delay
// parked runs.
func (b *testEnv) queue(first, last, n int, head string) {
	b.Helper()
	b.exec(`INSERT INTO open_runs (run_id, org_id, agent_id, session_ref, seq, lane, status, dispatched, dispatch_no, dedupe, reply_to, traceparent,
			deadline, not_before, parked_at)
		SELECT format('run_%s_%s', lpad(q::text, 6, '0'), s), $1, $2, 1000000 + s, q, 'automation',
			CASE WHEN q = 1 AND $6 LIKE 'parked%' THEN 'requires_action' ELSE 'queued' END, false, 0, '', '', '', now() + interval '1 day',
			CASE WHEN q > 1 THEN NULL WHEN $6 = 'backoff' THEN now() + interval '1 hour' WHEN $6 = 'parked' THEN 'infinity' END,
			CASE WHEN q = 1 AND $6 LIKE 'parked%' THEN now() END
		FROM generate_series($3::int, $4::int) s, generate_series(1, $5::int) q`, b.org, b.agent, first, last, n, head)
}

func (b *testEnv) dispatch(slots int) []string {
	b.Helper()
	jobs, err := b.s.Queue.DispatchNext(b.Context(), queuedb.FreedSlots{automationsFor(b.org): {Slots: slots, Waiting: true}})
	if err != nil {
		b.Fatal(err)
	}
	return ids(jobs)
}

// pages returns the number of pages that PostgreSQL reads to dispatch the next runs. The dispatch
// is rolled back.
func (b *testEnv) pages(slots int) int {
	b.Helper()
	tx, err := b.raw.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, set := range []string{
		`SET LOCAL ROLE parley_app`, `SET LOCAL enable_seqscan = off`, `SET LOCAL plan_cache_mode = force_generic_plan`,
	} {
		if _, err := tx.ExecContext(b.Context(), set); err != nil {
			b.Fatal(err)
		}
	}
	var raw []byte
	err = tx.QueryRowContext(b.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT run_id FROM dispatch_runs(ARRAY[$1], ARRAY['automation'], ARRAY[$2::int], '1 minute')`,
		b.org, slots).Scan(&raw)
	var plan []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		} `json:"Plan"`
	}
	if err != nil || json.Unmarshal(raw, &plan) != nil || plan[0].Plan.Hit == 0 {
		b.Fatalf("%s, %v", raw, err)
	}
	return plan[0].Plan.Hit + plan[0].Plan.Read
}

// Sixty thousand runs that wait for a parked run of their session do not slow down the dispatch of
// other runs.
func TestDispatchSkipsRunsThatWaitForAnother(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.dispatch(1) // makes PostgreSQL plan the statement while the tables are empty
	b.queue(1, 1, 60000, "parked")
	b.queue(2, 2, 300, "backoff")
	if got := b.dispatch(2); len(got) != 0 {
		t.Errorf("dispatched %v", got)
	}
	b.queue(3, 5, 2, "waiting")
	b.exec(`UPDATE open_runs SET run_id = 'z_' || run_id WHERE session_ref > 1000002`) // makes these runs newer than all others
	got := append(b.dispatch(2), b.dispatch(5)...)
	if slices.Sort(got); !slices.Equal(got, []string{"z_run_000001_3", "z_run_000001_4", "z_run_000001_5"}) {
		t.Errorf("dispatched %v", got)
	}
	if got := b.dispatch(5); len(got) != 0 {
		t.Errorf("runs were dispatched although none may start: %v", got)
	}
	for _, stats := range []string{"none", "up to date"} {
		for _, slots := range []int{1, 100} {
			if n := b.pages(slots); n > 5000 {
				t.Errorf("statistics %s, %d slots: the dispatch reads %d pages", stats, slots, n)
			}
		}
		b.exec(`ANALYZE open_runs`)
	}
}

// If the oldest runs of all sessions may start, a dispatch reads only those runs, and dispatches
// them in order.
func TestDispatchTakesTheOldest(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.queue(1, 3000, 2, "waiting")
	want := b.text(`SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM (SELECT run_id FROM open_runs ORDER BY run_id LIMIT 8) o`)
	b.exec(`ANALYZE open_runs`)
	if n := b.pages(8); n > 1000 {
		t.Errorf("the dispatch reads %d pages", n)
	}
	got := b.dispatch(8)
	if b.text(`SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM open_runs WHERE dispatched`) != want {
		t.Errorf("dispatched %v, want %s", got, want)
	}
	b.setSlots(10)
	if got, err := b.s.Queue.TopUp(t.Context(), []queuedb.Lane{automationsFor(b.org)}); err != nil || len(got) != 2 {
		t.Errorf("dispatched %v, %v beyond the slots", ids(got), err)
	}
}

// An organization has the maximum number of parked runs, and each parked run has other runs that
// wait for it. The first runs of the other sessions are all dispatched.
func TestDispatchAmongParkedRuns(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.queue(1, executiondb.MaxParked/2, 3, "parked")
	b.queue(executiondb.MaxParked/2+1, executiondb.MaxParked/2+40, 2, "waiting")
	b.exec(`UPDATE open_runs SET run_id = 'z_' || run_id WHERE session_ref > $1`, 1000000+executiondb.MaxParked/2)
	b.queue(executiondb.MaxParked, executiondb.MaxParked*3/2, 3, "parked by the previous release")
	seen := map[string]bool{}
	for range 9 {
		for _, id := range b.dispatch(5) {
			seen[id] = true
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d runs were handed over: %v", len(seen), seen)
	}
	if n := b.pages(5); n > 30000 {
		t.Errorf("the dispatch reads %d pages", n)
	}
}

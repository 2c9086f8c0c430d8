package store_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/lib/pq"

	"parley/shared/store/queuedb"
)

// Claiming dispatched runs adds no index entries. A claim changes no column that an index of
// open_runs contains, and each page has space for a second version of its rows.
func TestAClaimAddsNoIndexEntries(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const runs = 100
	accepted := b.accept(wideWindow, b.many(runs, b.automation)...)
	if dispatched(accepted) != runs {
		t.Fatalf("%d of %d runs were dispatched", dispatched(accepted), runs)
	}
	tx, err := b.raw.BeginTx(t.Context(), nil) // statistics are exact within the transaction
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT count(*) FROM claim_runs($1, '30 s')`, pq.Array(acceptedIDs(accepted))); err != nil {
		t.Fatal(err)
	}
	var updated, hot int
	err = tx.QueryRowContext(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'open_runs'`).Scan(&updated, &hot)
	if err != nil || updated != runs || hot < runs*9/10 {
		t.Errorf("%d of %d updates added no index entries, %v", hot, updated, err)
	}
}

func acceptedIDs(accepted []queuedb.Accepted) (ids []string) {
	for _, a := range accepted {
		ids = append(ids, a.Run.Run.ID)
	}
	return ids
}

// Several processes accept, claim and finish runs of the same sessions. A run is claimed only after
// the previous run of its session has finished.
func TestRunsOfASessionNeverOverlap(t *testing.T) {
	t.Parallel()
	const processes = 4
	rounds := repetitions(t, 10, 25)
	m := newMeter(t)
	line := sessionOrder{finishing: map[string]int{}}
	var wg sync.WaitGroup
	for range processes {
		s, _ := openAt(t, m.dsn)
		b := m.on(s)
		wg.Go(func() {
			for range rounds {
				line.add(acceptedIDs(b.accept(wideWindow, b.run("", "a"), b.run("", "b"), b.run("", "c"))))
				line.work(b)
			}
		})
	}
	wg.Wait()
	for m.text(`SELECT count(*) FROM open_runs`) != "0" && !t.Failed() {
		line.work(m.testEnv)
	}
}

// sessionOrder checks the order in which the runs of sessions are claimed.
type sessionOrder struct {
	mu        sync.Mutex
	runs      []string
	finishing map[string]int // by session: the newest run whose finishing has begun
}

func (o *sessionOrder) add(runs []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runs = append(o.runs, runs...)
}

// work claims the runs that may start and finishes them. It repeats this until no run is left.
func (o *sessionOrder) work(b *testEnv) {
	o.mu.Lock()
	runs := slices.Clone(o.runs)
	o.mu.Unlock()
	claims, err := b.s.Executions.Claim(b.Context(), runs)
	if err != nil {
		b.Errorf("claiming: %v", err)
	}
	for _, c := range claims {
		if c.Run != nil && o.finished(c.Run.SessionID) != c.Run.Seq-1 {
			b.Errorf("run %d of a session was claimed after run %d", c.Run.Seq, o.finished(c.Run.SessionID))
		}
	}
	for _, c := range claims {
		if c.Run != nil {
			o.finish(c.Run.SessionID, c.Run.Seq)
			b.finish(c.Run, "done")
		}
	}
}

func (o *sessionOrder) finished(session string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.finishing[session]
}

func (o *sessionOrder) finish(session string, seq int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finishing[session] = seq
}

package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store/queuedb"
	"parley/shared/store/sessiondb"
)

// due makes the runs that coalesce deliveries due for release.
func (m *hookEnv) due() {
	m.Helper()
	m.exec(`UPDATE collecting SET closes_at = now() - interval '1 second'`)
}

func (m *hookEnv) release() []string {
	m.Helper()
	orgs, err := m.s.Queue.ReleaseCollected(m.Context(), 100)
	if err != nil {
		m.Fatalf("releasing: %v", err)
	}
	return orgs
}

// deliveries returns the delivery ids in a run's input, and the id of the delivery from which the
// payload was taken.
func (m *hookEnv) deliveries(runID string) (ids []string, newest string) {
	m.Helper()
	var raw []byte
	if err := m.raw.QueryRowContext(m.Context(), `SELECT input FROM runs WHERE id = $1`, runID).Scan(&raw); err != nil {
		m.Fatal(err)
	}
	var in domain.Input
	var data struct {
		Webhook struct {
			DeliveryID string `json:"deliveryId"`
		} `json:"webhook"`
		Payload    json.RawMessage `json:"payload"`
		Deliveries struct {
			Count int      `json:"count"`
			IDs   []string `json:"ids"`
		} `json:"deliveries"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		m.Fatal(err)
	}
	if err := json.Unmarshal(in.Data, &data); err != nil {
		m.Fatal(err)
	}
	if in.Message != "hi" || string(data.Payload) != `{"n":1e400,"text":"x"}` || data.Deliveries.Count != len(data.Deliveries.IDs) {
		m.Errorf("input %s", raw)
	}
	return data.Deliveries.IDs, data.Webhook.DeliveryID
}

func TestHeldRunsStartNeitherByThemselvesNorTooEarly(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	const window = 2
	later, never, now := b.run("later", ""), b.run("never", ""), b.run("now", "")
	later.Hold, never.Hold = time.Hour, queuedb.HoldUntilReleased
	out := b.accept(window, later, never, now, b.run("", ""))
	if out[0].Job != nil || out[1].Job != nil || out[2].Job == nil || out[3].Job == nil {
		t.Errorf("dispatched %v %v %v %v: delayed runs take no slot", out[0].Job, out[1].Job, out[2].Job, out[3].Job)
	}
	for _, held := range []queuedb.NewRun{later, never} {
		if c := b.claim(held.ID); c.Run != nil || c.Ended {
			t.Errorf("claimed %+v", c)
		}
		if run, err := b.s.Runs.RunByID(ctx, b.org, "", held.ID); err != nil || run.Run.Status != domain.RunQueued {
			t.Errorf("run = %+v, %v", run.Run, err)
		}
	}
	b.finish(b.mustClaim(now.ID), "done")
	next, err := b.s.Queue.DispatchWaiting(ctx)
	if err != nil || len(next) != 0 {
		t.Errorf("dispatched %v, %v", ids(next), err)
	}
	var late float64
	if err := b.raw.QueryRowContext(ctx, `SELECT extract(epoch FROM deadline - not_before) FROM open_runs WHERE run_id = $1`, later.ID).Scan(&late); err != nil || late != 60 {
		t.Errorf("the run's deadline is %v s after its release time, %v", late, err)
	}
	b.exec(`UPDATE open_runs SET not_before = clock_timestamp() WHERE run_id = $1`, later.ID)
	next, err = b.s.Queue.DispatchWaiting(ctx)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "in time", next, later.ID)
	if run, ended, err := b.s.Executions.Cancel(ctx, b.org, "", never.ID); err != nil || len(ended) != 1 || run.Run.Status != domain.RunCancelled {
		t.Errorf("cancelled %+v, %v", run.Run, err)
	}
}

func TestDeliveriesBecomeOneRunOfTheNewest(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	out := m.deliver(m.collected("a", "k", time.Hour, time.Hour), m.collected("b", "k", time.Hour, time.Hour), m.collected("x", "other", time.Hour, time.Hour))
	out = append(out, m.deliver(m.collected("c", "k", time.Hour, time.Hour), m.collected("a", "k", time.Hour, time.Hour))...)
	run, other := runOf(out[0]), runOf(out[2])
	for i, a := range out {
		if want := map[int]string{2: other}[i]; runOf(a) != run && runOf(a) != want || a.Job != nil || a.Delivery.Status != domain.DeliveryCoalesced || a.Existing != (i == 4) {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	if run == other {
		t.Fatal("two keys have one run")
	}
	if orgs := m.release(); len(orgs) != 0 {
		t.Errorf("released before the release time: %v", orgs)
	}
	if c := m.claim(run); c.Run != nil {
		t.Error("the run was claimed while it collects deliveries")
	}
	m.exec(`UPDATE collecting SET closes_at = now() WHERE run_id = $1`, run)
	if orgs := m.release(); len(orgs) != 1 || orgs[0] != m.org {
		t.Errorf("released %v", orgs)
	}
	if ids, newest := m.deliveries(run); fmt.Sprint(ids) != "[a b c]" || newest != "c" {
		t.Errorf("the note names %v, the newest is %s", ids, newest)
	}
	next, err := m.s.Queue.DispatchWaiting(ctx)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "after the release", next, run)
	if late := m.deliver(m.collected("d", "k", time.Hour, time.Hour))[0]; runOf(late) == run || runOf(late) == "" {
		t.Errorf("a later one has the run %s", runOf(late))
	}
	m.finish(m.mustClaim(run), "done")
	if again := m.deliver(m.collected("b", "k", time.Hour, time.Hour))[0]; !again.Existing || runOf(again) != run {
		t.Errorf("again %+v", again)
	}
}

func TestAWindowEndsAfterTheNewestAndAtLastAfterTheFirst(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	closes := func() (fromNow, fromFirst float64) {
		t.Helper()
		if err := m.raw.QueryRowContext(t.Context(), `SELECT extract(epoch FROM closes_at - clock_timestamp()), extract(epoch FROM closes_at - first_at)
			FROM collecting`).Scan(&fromNow, &fromFirst); err != nil {
			t.Fatal(err)
		}
		return fromNow, fromFirst
	}
	const window, maxWait = 10 * time.Minute, 15 * time.Minute
	m.deliver(m.collected("a", "k", window, maxWait))
	if _, first := closes(); first != window.Seconds() {
		t.Errorf("the first one closes after %v s", first)
	}
	back := func(by string) {
		m.exec(`UPDATE collecting SET first_at = first_at - $1::interval, last_at = last_at - $1::interval, closes_at = closes_at - $1::interval`, by)
	}
	back("4 minutes")
	m.deliver(m.collected("b", "k", window, maxWait))
	if now, _ := closes(); now < window.Seconds()-60 || now > window.Seconds() {
		t.Errorf("the second one closes in %v s", now)
	}
	back("4 minutes")
	m.deliver(m.collected("c", "k", window, maxWait))
	if _, first := closes(); first != maxWait.Seconds() {
		t.Errorf("the last one closes %v s after the first", first)
	}
	var deadline float64
	if err := m.raw.QueryRowContext(t.Context(), `SELECT extract(epoch FROM o.deadline - r.created_at) FROM open_runs o JOIN runs r ON r.id = o.run_id`).Scan(&deadline); err != nil || deadline != (time.Minute+maxWait).Seconds() {
		t.Errorf("the run's deadline is after %v s, %v", deadline, err)
	}
	m.exec(`UPDATE collecting SET deliveries = 999`)
	m.deliver(m.collected("d", "k", window, maxWait))
	if now, _ := closes(); now > 0 {
		t.Errorf("a thousand deliveries are collected for %v s more", now)
	}
}

// Bursts of deliveries arrive at two ingresses while two sweepers release runs. Every delivery ends
// up in exactly one run.
func TestBurstsBecomeFewRunsThatKnowAllDeliveries(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	const bursts, each = 20, 25
	var all sync.WaitGroup
	for burst := range bursts {
		all.Go(func() {
			var rows []queuedb.NewDelivery
			for n := range each {
				rows = append(rows, m.collected(fmt.Sprintf("%d-%d", burst, n), "k", time.Hour, time.Hour))
			}
			if _, err := m.deliverUnlocked(context.WithoutCancel(t.Context()), rows); err != nil {
				t.Errorf("delivering: %v", err)
			}
		})
		if burst == bursts/2 { // in the middle of the bursts
			m.due()
			for range 2 {
				all.Go(func() { m.release() })
			}
		}
	}
	all.Wait()
	m.due()
	var released [4][]string
	for n := range released {
		all.Go(func() { released[n] = m.release() })
	}
	all.Wait()
	once := 0
	for _, orgs := range released {
		once += len(orgs)
	}
	if once != 1 {
		t.Errorf("four sweepers released the run %d times", once)
	}
	runs := texts(t, m.raw, `SELECT id FROM runs`)
	if len(runs) > 3 || m.count(`SELECT count(*) FROM collecting`) != 0 {
		t.Errorf("%d runs", len(runs))
	}
	seen := map[string]bool{}
	for _, run := range runs {
		names, _ := m.deliveries(run)
		logged := texts(t, m.raw, `SELECT delivery_id FROM deliveries WHERE run_id = $1 ORDER BY ref`, run)
		if fmt.Sprint(names) != fmt.Sprint(logged) {
			t.Errorf("the note for %s names %v, and the log has %v", run, names, logged)
		}
		for _, name := range names {
			if seen[name] {
				t.Errorf("%s is named twice", name)
			}
			seen[name] = true
		}
		m.finish(m.mustClaim(run), "done")
	}
	if len(seen) != bursts*each {
		t.Errorf("the notes name %d deliveries of %d", len(seen), bursts*each)
	}
}

// If a run that is still coalescing deliveries ends for any reason, the next delivery starts
// another run.
func TestARunThatEndsCollectsNoMore(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*hookEnv, queuedb.NewRun) error{
		"cancelled": func(m *hookEnv, run queuedb.NewRun) error {
			_, _, err := m.s.Executions.Cancel(m.Context(), m.org, "", run.ID)
			return err
		},
		"erased": func(m *hookEnv, run queuedb.NewRun) error {
			_, err := m.s.Sessions.EraseSession(m.Context(), sessiondb.SessionName{OrganizationID: m.org, TargetID: m.agent, SessionID: run.SessionID, Key: run.SessionKey})
			if n := m.count(`SELECT count(*) FROM deliveries WHERE body IS NOT NULL`); n != 0 {
				m.Errorf("%d bodies of an erased run are kept", n)
			}
			return err
		},
		"overdue": func(m *hookEnv, run queuedb.NewRun) error {
			m.exec(`UPDATE open_runs SET deadline = clock_timestamp() WHERE run_id = $1`, run.ID)
			_, err := m.s.Executions.EndOverdue(m.Context(), 10)
			return err
		},
		"without its agent": func(m *hookEnv, _ queuedb.NewRun) error {
			_, err := m.s.Executions.CancelQueued(m.Context(), m.org, m.agent, 10)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMailbox(t)
			first := m.collected("a", "k", time.Hour, time.Hour)
			m.deliver(first, m.collected("b", "k", time.Hour, time.Hour))
			if err := end(m, *first.Run); err != nil {
				t.Fatal(err)
			}
			m.due()
			if orgs := m.release(); len(orgs) != 0 || m.count(`SELECT count(*) FROM collecting`) != 0 {
				t.Errorf("the run still collects deliveries: %v", orgs)
			}
			if next := m.deliver(m.collected("c", "k", time.Hour, time.Hour))[0]; runOf(next) == first.Run.ID || next.Existing {
				t.Errorf("the next one has the run %s", runOf(next))
			}
			if again := m.deliver(m.collected("b", "k", time.Hour, time.Hour))[0]; !again.Existing || *again.Delivery.RunID != first.Run.ID {
				t.Errorf("the second one has the run %s", *again.Delivery.RunID)
			}
		})
	}
}

func TestUncollectableDeliveriesAreRefused(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	a, b := m.collected("a", "k", time.Hour, time.Hour), m.collected("b", "k", time.Hour, time.Hour)
	a.Run.CallerKind, b.Run.CallerKind = domain.CallerUser, domain.CallerUser
	for _, got := range m.deliver(a, b) {
		if got.Delivery.Status != domain.DeliveryRefused || got.Delivery.RunID != nil || got.Delivery.Error == nil {
			t.Errorf("answer %+v", got)
		}
	}
	if n := m.count(`SELECT count(*) FROM collecting`); n != 0 {
		t.Error("deliveries are collected for a run that does not exist")
	}
	if next := m.deliver(m.collected("b", "k", time.Hour, time.Hour))[0]; runOf(next) == "" {
		t.Errorf("the next one: %+v", next)
	}
}

// A transaction whose reply was lost may commit only after the retry has looked for the
// transaction's rows. The retry then does not change these rows.
func TestASecondTryLeavesTheFirstAlone(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	begins, joins, alone := m.collected("begins", "k", time.Hour, time.Hour), m.collected("joins", "k", time.Hour, time.Hour), m.delivery("alone")
	first := m.deliver(begins, joins, alone)
	run := begins.Run.ID
	for _, batch := range [][]queuedb.NewDelivery{{begins, joins, alone}, {alone}, {joins}, {begins}} {
		for i, a := range m.deliver(batch...) {
			if d := batch[i]; a.Job != nil || runOf(a) == "" || a.Delivery.Error != nil || (runOf(a) == run) != (d.Collect != nil) {
				t.Errorf("%s: again %+v", d.ID, a)
			}
		}
	}
	if n := m.count(`SELECT sum(deliveries) FROM collecting WHERE run_id = $1`, run); n != 2 || runOf(first[1]) != run {
		t.Errorf("%d deliveries are collected, want 2", n)
	}
	m.due()
	if orgs := m.release(); len(orgs) != 1 {
		t.Errorf("released %v", orgs)
	}
	if ids, newest := m.deliveries(run); fmt.Sprint(ids) != "[begins joins]" || newest != "joins" {
		t.Errorf("the note names %v, the newest is %s", ids, newest)
	}
	for _, id := range []string{run, alone.Run.ID} {
		m.finish(m.mustClaim(id), "done")
	}
	if n := m.count(`SELECT count(*) FROM open_runs`) + m.count(`SELECT count(*) FROM collecting`); n != 0 {
		t.Errorf("%d rows remain", n)
	}
}

// breakConnection breaks the connection of the first transaction that changes the table, either
// immediately or at the commit. Later transactions are not affected. It returns the function died,
// which removes the trigger and reports whether the connection was broken.
func (m *hookEnv) breakConnection(what, table string) (died func() bool) {
	m.Helper()
	m.exec(`CREATE SEQUENCE IF NOT EXISTS deaths`)
	m.exec(`CREATE OR REPLACE FUNCTION die() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN IF nextval('deaths') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1); END IF; RETURN NULL; END $$`)
	m.exec(`SELECT setval('deaths', 1, false)`)
	if event, atCommit := strings.CutPrefix(what, "commit of "); atCommit {
		m.exec(`CREATE CONSTRAINT TRIGGER dies AFTER ` + event + ` ON ` + table + ` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()`)
	} else {
		m.exec(`CREATE TRIGGER dies AFTER ` + what + ` ON ` + table + ` FOR EACH STATEMENT EXECUTE FUNCTION die()`)
	}
	return func() bool {
		m.exec(`DROP TRIGGER dies ON ` + table)
		return m.count(`SELECT is_called::int FROM deaths`) == 1
	}
}

// If the process that releases a run dies, either the run is released, or it continues to coalesce
// and has all of its deliveries.
func TestAnInterruptedReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	for n, c := range []struct{ what, table string }{
		{"UPDATE", "runs"}, {"UPDATE", "open_runs"}, {"DELETE", "collecting"}, {"commit of DELETE", "collecting"},
	} {
		names := []string{fmt.Sprint("a", n), fmt.Sprint("b", n)}
		run := runOf(m.deliver(m.collected(names[0], "k", time.Hour, time.Hour), m.collected(names[1], "k", time.Hour, time.Hour))[0])
		m.due()
		died := m.breakConnection(c.what, c.table)
		_, err := m.s.Queue.ReleaseCollected(t.Context(), 100)
		if !died() || err == nil {
			t.Fatalf("%s %s: the connection was not broken: %v", c.what, c.table, err)
		}
		if held := m.count(`SELECT count(*) FROM collecting c JOIN open_runs o ON o.run_id = c.run_id AND o.not_before = 'infinity'`); held != 1 {
			t.Fatalf("%s %s: %d runs are held", c.what, c.table, held)
		}
		third := fmt.Sprint("c", n)
		if joined := m.deliver(m.collected(third, "k", time.Hour, time.Hour))[0]; runOf(joined) != run {
			t.Errorf("%s %s: the next one has the run %s", c.what, c.table, runOf(joined))
		}
		m.due()
		if orgs := m.release(); len(orgs) != 1 {
			t.Errorf("%s %s: released %v", c.what, c.table, orgs)
		}
		if ids, newest := m.deliveries(run); fmt.Sprint(ids) != fmt.Sprint(append(names, third)) || newest != third {
			t.Errorf("%s %s: the note names %v, the newest is %s", c.what, c.table, ids, newest)
		}
		m.finish(m.mustClaim(run), "done")
	}
}

// If the process that accepts a delivery dies, either all changes of its transaction are stored or
// none.
func TestDeliveriesOfALostTransactionAreStoredOnce(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	m.deliver(m.collected("first", "k", time.Hour, time.Hour))
	for n, c := range []struct{ what, table string }{
		{"INSERT", "deliveries"},
		{"INSERT", "collecting"},
		{"INSERT", "runs"},
		{"INSERT", "open_runs"},
		{"UPDATE", "deliveries"},
		{"commit of INSERT", "open_runs"},
	} {
		name := func(s string) string { return fmt.Sprint(s, n) }
		died := m.breakConnection(c.what, c.table)
		out := m.deliver(m.delivery(name("alone")), m.collected(name("joins"), "k", time.Hour, time.Hour), m.collected(name("begins"), name("k"), time.Hour, time.Hour))
		if !died() {
			t.Errorf("%s %s: the connection was not broken", c.what, c.table)
		}
		for _, a := range out {
			if runOf(a) == "" || a.Existing {
				t.Errorf("%s %s: answer %+v", c.what, c.table, a)
			}
		}
		if runs := m.count(`SELECT count(*) FROM runs`); runs != 1+2*(n+1) {
			t.Errorf("%s %s: %d runs", c.what, c.table, runs)
		}
	}
	if orphans := m.count(`SELECT count(*) FROM deliveries d WHERE NOT EXISTS (SELECT FROM open_runs o WHERE o.run_id = d.run_id)`); orphans != 0 {
		t.Errorf("%d deliveries have no run", orphans)
	}
	if n := m.count(`SELECT deliveries FROM collecting WHERE run_id = (SELECT run_id FROM deliveries WHERE delivery_id = 'first')`); n != 7 {
		t.Errorf("%d deliveries are collected, want 7", n)
	}
}

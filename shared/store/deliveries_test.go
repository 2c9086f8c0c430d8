package store_test

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/hookdb"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
	"parley/shared/store/sealdb"
	"parley/shared/testkit"
)

func TestADeliveryIsLoggedOnceAndHasOneRun(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	filtered := m.delivery("filtered")
	filtered.Status, filtered.Run = domain.DeliveryFiltered, nil
	first, twin, other := m.delivery("one"), m.delivery("one"), m.delivery("two")
	out := m.deliver(first, twin, filtered, other)
	if out[0].Existing || !out[1].Existing || runOf(out[0]) != first.Run.ID || runOf(out[1]) != first.Run.ID || runOf(out[3]) != other.Run.ID {
		t.Errorf("answers %+v", out)
	}
	if out[0].Job == nil || out[0].Job.RunID != first.Run.ID || out[1].Job != nil || out[2].Job != nil || out[3].Job == nil {
		t.Errorf("job messages %v %v %v %v", out[0].Job, out[1].Job, out[2].Job, out[3].Job)
	}
	if got := out[2].Delivery; got.RunID != nil || got.Status != domain.DeliveryFiltered || out[2].Existing {
		t.Errorf("filtered %+v", out[2])
	}
	if again := m.deliver(m.delivery("one"))[0]; !again.Existing || runOf(again) != first.Run.ID || again.Job != nil || again.Delivery.Duplicates != 2 {
		t.Errorf("again %+v", again)
	}
	m.finish(m.mustClaim(first.Run.ID), "done")
	if again := m.deliver(m.delivery("one"))[0]; !again.Existing || runOf(again) != first.Run.ID {
		t.Errorf("after the run's end: %+v", again)
	}
	if n := m.count(`SELECT count(*) FROM runs WHERE key_id = $1 AND trigger_type = 'webhook'`, m.key); n != 2 {
		t.Errorf("%d runs", n)
	}
	got, err := m.s.Hooks.Delivery(ctx, m.org, m.hook.ID, "one")
	if err != nil || got.ID != "one" || *got.RunID != first.Run.ID || got.Event != "push" || got.Bytes != 2 || !got.Kept || got.Duplicates != 3 || got.Error != nil {
		t.Errorf("line %+v, %v", got, err)
	}
	_, err = m.s.Hooks.Delivery(ctx, m.org, m.hook.ID, "three")
	wantCode(t, err, apierr.NotFound)
	hook, err := m.s.Hooks.Hook(ctx, m.org, m.hook.ID)
	if err != nil || hook.LastDeliveryAt == nil {
		t.Errorf("hook %+v, %v", hook, err)
	}
}

// The bodies and inputs of a batch are stored with the delivery that they belong to, whatever their
// sizes and bytes are.
func TestDeliveriesOfABatchKeepTheirBodiesAndInputs(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	bodies := []string{`{"a":1}`, "\xff\x00 not text", "", strings.Repeat("ü", 3000), `{"b":"⟦"}`, "x"}
	var rows []queuedb.NewDelivery
	for i, body := range bodies {
		d := m.delivery(fmt.Sprint("d", len(bodies)-i)) // the ids are not in the order of the batch
		d.Body, d.Run.Input = []byte(body), fmt.Appendf(nil, `{"message":%q}`, strings.Repeat("é\\", i)+d.ID)
		rows = append(rows, d)
	}
	rows[1].Status, rows[1].Run = domain.DeliveryAnswered, nil
	rows[4].Error, rows[4].Event = &domain.RunError{Code: "other", Message: "a group of its own"}, "issues"
	m.deliver(rows...)

	for i, d := range rows {
		body, _, err := m.s.Hooks.DeliveryBody(ctx, m.org, m.hook.ID, d.ID)
		if (apierr.CodeFor(err) == apierr.NotFound) != (bodies[i] == "") || string(body) != bodies[i] {
			t.Errorf("body of %s: %q, %v, want %q", d.ID, body, err, bodies[i])
		}
		logged, err := m.s.Hooks.Delivery(ctx, m.org, m.hook.ID, d.ID)
		if err != nil || logged.Event != d.Event || (logged.Error != nil) != (d.Error != nil) {
			t.Errorf("entry %+v, %v", logged, err)
		}
		if d.Run == nil {
			continue
		}
		input, err := m.s.Executions.RunInput(ctx, m.org, d.Run.ID)
		if err != nil || string(input) != string(d.Run.Input) {
			t.Errorf("input of %s: %q, %v, want %q", d.ID, input, err, d.Run.Input)
		}
		if n := m.count(`SELECT count(*) FROM runs r JOIN sessions s ON s.ref = r.session_ref
			WHERE r.id = $1 AND r.idempotency_hash = $2 AND s.key = $3`, d.Run.ID, d.Run.KeyHash, d.Run.SessionKey); n != 1 {
			t.Errorf("the hashes of %s are not those of its run and session", d.ID)
		}
	}
}

func TestDeliveriesAreListed(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	var rows []queuedb.NewDelivery
	for n := range 5 {
		rows = append(rows, m.delivery(fmt.Sprint(9-n))) // the ids are not in the order of arrival
	}
	rows[1].Status, rows[1].Run = domain.DeliveryAnswered, nil
	m.deliver(rows...)
	elsewhere := mailboxOn(m.testEnv)
	elsewhere.deliver(elsewhere.delivery("9"))
	list := func(f hookdb.DeliveryFilter, limit int) string {
		t.Helper()
		lines, err := m.s.Hooks.Deliveries(ctx, m.org, f, limit)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range lines {
			names = append(names, l.ID)
		}
		return strings.Join(names, " ")
	}
	page, err := m.s.Hooks.Deliveries(ctx, m.org, hookdb.DeliveryFilter{HookID: m.hook.ID}, 2)
	if err != nil || len(page) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, c := range []struct {
		filter hookdb.DeliveryFilter
		want   string
	}{
		{hookdb.DeliveryFilter{}, "9 5 6 7 8 9"},
		{hookdb.DeliveryFilter{HookID: m.hook.ID}, "5 6 7 8 9"},
		{hookdb.DeliveryFilter{HookID: m.hook.ID, Before: page[1].Ref}, "7 8 9"},
		{hookdb.DeliveryFilter{Status: domain.DeliveryAnswered}, "8"},
		{hookdb.DeliveryFilter{RunID: rows[2].Run.ID}, "7"},
		{hookdb.DeliveryFilter{RunID: rows[2].Run.ID, Status: domain.DeliveryRefused}, ""},
		{hookdb.DeliveryFilter{HookID: id.New(id.Hook)}, ""},
	} {
		if got := list(c.filter, 100); got != c.want {
			t.Errorf("%+v: %q, want %q", c.filter, got, c.want)
		}
	}
	if err := m.s.Hooks.DeleteHook(ctx, m.org, m.hook.ID); err != nil {
		t.Fatal(err)
	}
	if got := list(hookdb.DeliveryFilter{}, 100); got != "9" {
		t.Errorf("after the hook was deleted: %q", got)
	}
	_, err = m.s.Hooks.Delivery(ctx, m.org, m.hook.ID, "9")
	wantCode(t, err, apierr.NotFound)
	out, err := m.s.Queue.AcceptDeliveries(ctx, []queuedb.NewDelivery{m.delivery("late"), elsewhere.delivery("late")})
	if err != nil || out[1].Err != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	wantCode(t, out[0].Err, apierr.NotFound)
}

// A rejected delivery may start a run when it is sent again, because the agent or the hook's filter
// may have been fixed.
func TestARefusedDeliveryIsTakenWhenItComesAgain(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	refused := m.delivery("one")
	refused.Run.CallerKind = domain.CallerUser
	gone := m.delivery("two")
	gone.Run.AgentID = id.New(id.Agent)
	out := m.deliver(refused, m.delivery("three"), gone)
	for i, code := range map[int]apierr.Code{0: apierr.CallerNotAllowed, 2: apierr.NotFound} {
		d := out[i].Delivery
		if d.Status != domain.DeliveryRefused || d.RunID != nil || d.Error == nil || d.Error.Code != string(code) || out[i].Existing {
			t.Errorf("refused %+v", out[i])
		}
	}
	if got, err := m.s.Hooks.Delivery(ctx, m.org, m.hook.ID, "one"); err != nil || got.Status != domain.DeliveryRefused || got.Error == nil {
		t.Errorf("line %+v, %v", got, err)
	}
	again := m.deliver(m.delivery("one"))[0]
	if again.Existing || runOf(again) == "" || again.Job == nil || again.Delivery.Status != domain.DeliveryAccepted || again.Delivery.Error != nil {
		t.Errorf("mended %+v", again)
	}
	if third := m.deliver(m.delivery("one"))[0]; !third.Existing || runOf(third) != runOf(again) {
		t.Errorf("the third time %+v", third)
	}
}

func TestDeliveriesOfManyIngressesAreOneRunEach(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	const deliveries, ingresses = 120, 4
	var fresh atomic.Int64
	var mu sync.Mutex
	runs := map[string]string{}
	var all sync.WaitGroup
	for n := range ingresses {
		all.Go(func() {
			var rows []queuedb.NewDelivery
			for i := range deliveries {
				at := (i*7 + n*31) % deliveries
				if at%2 == 0 {
					rows = append(rows, m.delivery(fmt.Sprint("d", at)))
				} else {
					rows = append(rows, m.collected(fmt.Sprint("d", at), fmt.Sprint("k", at%10), time.Hour, time.Hour))
				}
			}
			for batch := range slices.Chunk(rows, 20) {
				out, err := m.deliverUnlocked(context.WithoutCancel(t.Context()), batch)
				if err != nil {
					t.Errorf("delivering: %v", err)
					return
				}
				mu.Lock()
				for i, a := range out {
					if a.Err != nil || runOf(a) == "" {
						t.Errorf("answer %+v", a)
						continue
					}
					if before := runs[batch[i].ID]; before != "" && before != runOf(a) {
						t.Errorf("%s has the runs %s and %s", batch[i].ID, before, runOf(a))
					}
					runs[batch[i].ID] = runOf(a)
					if !a.Existing {
						fresh.Add(1)
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if fresh.Load() != deliveries {
		t.Errorf("%d were new, want %d", fresh.Load(), deliveries)
	}
	if n := m.count(`SELECT count(*) FROM runs`); n != deliveries/2+5 {
		t.Errorf("%d runs, want %d and one for each of 5 keys", n, deliveries/2)
	}
	if n := m.count(`SELECT sum(deliveries) FROM collecting`); n != deliveries/2 {
		t.Errorf("%d are collected, want %d", n, deliveries/2)
	}
}

func TestABadDeliveryFailsAlone(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	bad := m.delivery("bad")
	bad.Event = "a\x00b"
	out, err := m.s.Queue.AcceptDeliveries(t.Context(), []queuedb.NewDelivery{m.delivery("one"), bad, m.delivery("two")})
	if err != nil || out[0].Err != nil || out[1].Err == nil || out[2].Err != nil {
		t.Errorf("%+v, %v", out, err)
	}
	if n := m.count(`SELECT count(*) FROM runs`); n != 2 {
		t.Errorf("%d runs", n)
	}
}

func TestBodiesAreKeptAndSealed(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	s, raw := openAt(t, dsn)
	m := mailboxOn(newEnvOn(t, s, raw, "ada@example.com"))
	ctx := t.Context()
	var rows []queuedb.NewDelivery
	for n := range 6 { // more than one transaction writes
		d := m.delivery(fmt.Sprint("large", n))
		d.Body = bytes.Repeat([]byte("x"), hookdb.MaxDeliveryBody)
		rows = append(rows, d)
	}
	rows[5].Body = append(rows[5].Body, 'y')
	m.deliver(rows...)
	body, contentType, err := s.Hooks.DeliveryBody(ctx, m.org, m.hook.ID, "large0")
	if err != nil || len(body) != hookdb.MaxDeliveryBody || contentType != "application/json" {
		t.Errorf("%d bytes of %s, %v", len(body), contentType, err)
	}
	_, _, err = s.Hooks.DeliveryBody(ctx, m.org, m.hook.ID, "large5")
	wantCode(t, err, apierr.NotFound)
	sealing, _ := openAt(t, dsn)
	box, err := secrets.NewBox(strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	sealing.Seals.SealContents(box)
	secret := m.delivery("secret")
	secret.Body = []byte(canary)
	if _, err := sealing.Queue.AcceptDeliveries(ctx, []queuedb.NewDelivery{secret}); err != nil {
		t.Fatal(err)
	}
	if n := m.count(`SELECT count(*) FROM deliveries WHERE position($1::bytea IN body) > 0`, []byte(canary)); n != 0 {
		t.Error("the body is not sealed")
	}
	if body, _, err := sealing.Hooks.DeliveryBody(ctx, m.org, m.hook.ID, "secret"); err != nil || string(body) != canary {
		t.Errorf("opened %q, %v", body, err)
	}
	if _, _, err := s.Hooks.DeliveryBody(ctx, m.org, m.hook.ID, "secret"); !errors.Is(err, sealdb.ErrContentSealed) {
		t.Errorf("without a key: %v", err)
	}
}

func TestDeliveriesAreKeptAsLongAsTheirRuns(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	kept, over, young := m.delivery("kept"), m.delivery("over"), m.delivery("young")
	over.Run = nil
	m.deliver(kept, over, young)
	m.exec(`UPDATE deliveries SET sweep_after = now() WHERE delivery_id <> 'young'`)
	if n, err := m.s.Sessions.PruneDeliveries(ctx, 100); err != nil || n != 2 {
		t.Errorf("checked %d, %v", n, err)
	}
	if names := texts(t, m.raw, `SELECT delivery_id FROM deliveries ORDER BY 1`); fmt.Sprint(names) != "[kept young]" {
		t.Errorf("kept are %v", names)
	}
	if n, err := m.s.Sessions.PruneDeliveries(ctx, 100); err != nil || n != 0 {
		t.Errorf("checked %d again, %v", n, err)
	}
	collects := m.deliver(m.collected("collected", "k", time.Hour, time.Hour))[0]
	if err := m.s.Hooks.DeleteHook(ctx, m.org, m.hook.ID); err != nil {
		t.Fatal(err)
	}
	if n, err := m.s.Sessions.PruneDeliveries(ctx, 100); err != nil || n != 0 {
		t.Errorf("%d went from below a run that collects, %v", n, err)
	}
	if _, _, err := m.s.Executions.Cancel(ctx, m.org, "", runOf(collects)); err != nil {
		t.Fatal(err)
	}
	m.exec(`UPDATE hooks SET deleted_at = deleted_at - interval '2 hours'`)
	for _, want := range []int{2, 1} { // the hook is removed after the second and last round
		if n, err := m.s.Sessions.PruneDeliveries(ctx, 2); err != nil || n != want {
			t.Errorf("checked %d, %v; want %d", n, err, want)
		}
	}
	if n := m.count(`SELECT (SELECT count(*) FROM hooks) + (SELECT count(*) FROM deliveries)`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// After a run was removed, only the log entries about its deliveries remain.
func TestBodiesGoWithTheirRuns(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	over, live, none := m.delivery("over"), m.delivery("live"), m.delivery("none")
	none.Run = nil
	m.deliver(over, live, none)
	m.finish(m.mustClaim(over.Run.ID), "done")
	m.exec(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 s', sweep_after = clock_timestamp() - interval '1 s' WHERE id = $1`, over.Run.ID)
	if n, err := m.s.Sessions.DeleteExpired(ctx, 100); err != nil || n != 1 || m.count(`SELECT count(*) FROM runs`) != 1 {
		t.Fatalf("checked %d, %v", n, err)
	}
	for name, kept := range map[string]bool{"over": false, "live": true, "none": true} {
		if d, err := m.s.Hooks.Delivery(ctx, m.org, m.hook.ID, name); err != nil || d.Kept != kept {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	_, _, err := m.s.Hooks.DeliveryBody(ctx, m.org, m.hook.ID, "over")
	wantCode(t, err, apierr.NotFound)
	if again := m.deliver(m.delivery("over"))[0]; !again.Existing || again.Delivery.Kept || *again.Delivery.RunID != over.Run.ID {
		t.Errorf("again %+v", again)
	}
}

// lostAnswerConnector makes connections. One of them loses one reply: the reply to a successful
// commit, or to a successful statement that accepts simple deliveries.
type lostAnswerConnector struct {
	driver.Connector
	armed, armedSimple atomic.Bool
}

type deafConn struct {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator

	by *lostAnswerConnector
}

type deafTx struct {
	driver.Tx
	by *lostAnswerConnector
}

func (d *lostAnswerConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &deafConn{
		conn, conn.(driver.ConnPrepareContext), conn.(driver.ConnBeginTx), conn.(driver.NamedValueChecker),
		conn.(driver.SessionResetter), conn.(driver.Validator), d,
	}, nil
}

// deafStmt is a statement that loses the reply to one of its executions.
type deafStmt struct {
	driver.Stmt
	driver.StmtQueryContext

	by *lostAnswerConnector
}

func (c *deafConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.ConnPrepareContext.PrepareContext(ctx, query)
	if err != nil || !strings.Contains(query, "accept_deliveries") {
		return stmt, err
	}
	return deafStmt{stmt, stmt.(driver.StmtQueryContext), c.by}, nil
}

func (s deafStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.StmtQueryContext.QueryContext(ctx, args)
	if err == nil && s.by.armedSimple.CompareAndSwap(true, false) {
		return nil, errors.Join(io.ErrUnexpectedEOF, rows.Close())
	}
	return rows, err
}

func (c *deafConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.ConnBeginTx.BeginTx(ctx, opts)
	return deafTx{tx, c.by}, err
}

func (tx deafTx) Commit() error {
	err := tx.Tx.Commit()
	if err == nil && tx.by.armed.CompareAndSwap(true, false) {
		return driver.ErrBadConn
	}
	return err
}

func TestDeliveriesWhoseCommitWasNotAnsweredAreFound(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	connector, err := pg.Connector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	by := &lostAnswerConnector{Connector: connector}
	s := store.On(by, 4)
	t.Cleanup(func() { _ = s.Close() })
	m := mailboxOn(newEnvOn(t, s, testkit.SQL(t, dsn), "ada@example.com"))
	collected := runOf(m.deliver(m.collected("first", "k", time.Hour, time.Hour))[0])
	one, joins := m.delivery("one"), m.collected("joins", "k", time.Hour, time.Hour)
	refused := m.delivery("refused")
	refused.Run.CallerKind = domain.CallerUser
	by.armed.Store(true)
	out := m.deliver(one, joins, refused)
	if by.armed.Load() {
		t.Fatal("no commit was lost")
	}
	if out[0].Existing || runOf(out[0]) != one.Run.ID || runOf(out[1]) != collected || out[2].Delivery.Status != domain.DeliveryRefused {
		t.Errorf("answers %+v", out)
	}
	if n := m.count(`SELECT count(*) FROM runs`); n != 2 {
		t.Errorf("%d runs", n)
	}

	two, filtered, late := m.delivery("two"), m.delivery("filtered"), m.delivery("late")
	filtered.Status, filtered.Run = domain.DeliveryFiltered, nil
	late.Run.CallerKind = domain.CallerUser
	by.armedSimple.Store(true)
	out = m.deliver(two, m.delivery("one"), filtered, late)
	if by.armedSimple.Load() {
		t.Fatal("no reply was lost")
	}
	if out[0].Existing || runOf(out[0]) != two.Run.ID || !out[1].Existing || runOf(out[1]) != one.Run.ID ||
		out[2].Existing || out[2].Delivery.Status != domain.DeliveryFiltered || out[3].Delivery.Status != domain.DeliveryRefused {
		t.Errorf("answers after a lost reply %+v", out)
	}
	if n := m.count(`SELECT count(*) FROM runs`); n != 3 {
		t.Errorf("%d runs", n)
	}
}

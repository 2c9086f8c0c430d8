package store_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
)

// claimedRun accepts a run and claims it.
func (b *testEnv) claimedRun() lease.Held {
	b.Helper()
	return b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID).Held()
}

// TestASentCallIsRunning shows a sent call as running while a worker executes the run, and as failed
// when the run has no worker.
func TestASentCallIsRunning(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for _, tc := range []struct {
		left, want string
		side       domain.SideEffect
	}{
		{"sending", `running null`, domain.SideEffectUnsafe},
		{"sending", `running null`, domain.SideEffectIdempotent},
		{"unknown", `failed {"error":"The outcome of this call is unknown."}`, domain.SideEffectUnsafe},
		{"done", `completed 1`, domain.SideEffectUnsafe},
	} {
		t.Run(tc.left+" "+string(tc.side), func(t *testing.T) {
			t.Parallel()
			b := &testEnv{T: t, s: b.s, raw: b.raw, org: b.org, agent: b.agent}
			first := b.claimedRun()
			b.inState(first, tc.left, tc.side)
			if got := b.shownCall(first.RunID); got != tc.want {
				t.Errorf("the call of a running run is %s, want %s", got, tc.want)
			}

			b.exec(`UPDATE open_runs SET status = 'queued', dispatched = false, lease_until = NULL WHERE run_id = $1`, first.RunID)
			if got := b.shownCall(first.RunID); tc.left == "sending" && got != `failed {"error":"The outcome of this call is unknown."}` {
				t.Errorf("the call of a queued run is %s", got)
			}
		})
	}
}

// shownCall returns the status and the output of the only call of a run, as the API shows them.
func (b *testEnv) shownCall(runID string) string {
	b.Helper()
	found, err := b.s.Runs.RunByID(b.Context(), b.org, "", runID)
	if err != nil || len(found.Run.ToolCalls) != 1 {
		b.Fatalf("reading the call: %+v, %v", found.Run.ToolCalls, err)
	}

	output, err := json.Marshal(found.Run.ToolCalls[0].Output)
	if err != nil {
		b.Fatal(err)
	}
	return found.Run.ToolCalls[0].Status + " " + string(output)
}

func effect(callID string, side domain.SideEffect) domain.Effect {
	return domain.Effect{CallID: callID, Name: "pay", Input: json.RawMessage(`{"amount": 1}`), SideEffect: side, Key: "key of " + callID}
}

func (b *testEnv) prepare(held lease.Held, e domain.Effect, ask bool) domain.Effect {
	b.Helper()
	out, kept, err := b.s.Executions.PrepareEffect(b.Context(), held, e, ask)
	if err != nil || !kept {
		b.Fatalf("preparing effect: %+v, %v, %v", out, kept, err)
	}
	return out
}

// inState inserts the effect of the call "c" in the given state.
func (b *testEnv) inState(held lease.Held, state string, side domain.SideEffect) {
	b.Helper()
	b.prepare(held, effect("c", side), state == "awaiting" || state == "denied")
	switch state {
	case "ready", "awaiting":
	case "void":
		b.does("void", held, true)
	case "sending":
		b.does("begin", held, true)
	case "done":
		b.does("begin", held, true)
		b.does("end", held, true)
	case "denied", "happened": // set by a person's decision; see TestDecisions
		b.exec(`UPDATE effects SET state = $2 WHERE run_id = $1`, held.RunID, state)
	case "unknown":
		b.exec(`UPDATE effects SET state = 'awaiting', sent_at = clock_timestamp() WHERE run_id = $1`, held.RunID)
	default:
		b.Fatalf("no way to %s", state)
	}
}

// try executes a worker's operation on the effect of the call "c", and reports whether it
// succeeded. The argument what is the name of the operation.
func (b *testEnv) try(what string, held lease.Held) (bool, error) {
	b.Helper()
	switch what {
	case "begin":
		return b.s.Executions.BeginSend(b.Context(), held, "c", "sender")
	case "end":
		return b.s.Executions.EndSend(b.Context(), held, "c", []byte(`{"output":1}`))
	case "unsend":
		return b.s.Executions.CancelSend(b.Context(), held, "c", "sender")
	case "unsend of another":
		return b.s.Executions.CancelSend(b.Context(), held, "c", "another")
	case "void":
		return b.s.Executions.VoidEffect(b.Context(), held, "c")
	case "prepare":
		_, kept, err := b.s.Executions.PrepareEffect(b.Context(), held, effect("c", domain.SideEffectUnsafe), false)
		return kept, err
	case "park":
		out, err := b.s.Executions.Park(b.Context(), held, domain.RequiredAction{ToolCallID: "c"}, executiondb.Chunk{})
		return out.Parked || out.Known, err
	case "keep":
		_, kept, err := b.s.Blobs.KeepSource(b.Context(), held, domain.Source{Text: "x"})
		return kept, err
	case "files":
		_, kept, err := b.s.Blobs.KeepFiles(b.Context(), held, "c", []blobdb.NewFile{made("x", "x")}, []string{"y"}, 1<<20)
		return kept, err
	case "no files":
		_, kept, err := b.s.Blobs.KeepFiles(b.Context(), held, "c", nil, nil, 0)
		return kept, err
	case "folder":
		_, kept, err := b.s.Blobs.SessionFiles(b.Context(), held, "c")
		return kept, err
	case "step":
		return b.s.Executions.Journal(b.Context(), held, 1, []byte(`{}`))
	case "tools":
		return b.s.Executions.KeepToolSet(b.Context(), held, []byte(`[]`))
	}
	b.Fatalf("no such thing: %s", what)
	return false, nil
}

func (b *testEnv) does(what string, held lease.Held, want bool) {
	b.Helper()
	if done, err := b.try(what, held); err != nil || done != want {
		b.Errorf("%s: %v, %v; want %v", what, done, err, want)
	}
}

func (b *testEnv) text(query string, args ...any) string {
	b.Helper()
	var out string
	if err := b.raw.QueryRowContext(b.Context(), query, args...).Scan(&out); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	return out
}

func (b *testEnv) wantEffect(runID, want string) {
	b.Helper()
	got := b.text(`SELECT state || CASE WHEN sent_at IS NOT NULL THEN ' sent' ELSE '' END FROM effects WHERE run_id = $1 AND call_id = 'c'`, runID)
	if got != want {
		b.Errorf("the effect is %s, want %s", got, want)
	}
}

// A later attempt finds the state of a call's effect. It may repeat the call only if that is safe.
func TestAnEffectContinuesInItsState(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const none, idempotent, unsafe = domain.SideEffectNone, domain.SideEffectIdempotent, domain.SideEffectUnsafe
	for _, tc := range []struct {
		left string
		side domain.SideEffect
		want domain.EffectState
		sent bool
		void bool // the next attempt may report that no worker took the call
	}{
		{"ready", unsafe, domain.EffectReady, false, true},
		{"ready", idempotent, domain.EffectReady, false, true},
		{"awaiting", unsafe, domain.EffectAwaiting, false, false},
		{"awaiting", none, domain.EffectAwaiting, false, false},
		{"sending", none, domain.EffectReady, true, false},
		{"sending", idempotent, domain.EffectReady, true, false},
		{"sending", unsafe, domain.EffectAwaiting, true, false},
		{"unknown", unsafe, domain.EffectAwaiting, true, false},
		{"done", unsafe, domain.EffectDone, true, false},
		{"done", idempotent, domain.EffectDone, true, false},
		{"denied", unsafe, domain.EffectDenied, false, false},
		{"happened", unsafe, domain.EffectHappened, false, false},
		{"void", unsafe, domain.EffectReady, false, true},
		{"void", idempotent, domain.EffectReady, false, true},
	} {
		t.Run(tc.left+" "+string(tc.side), func(t *testing.T) {
			t.Parallel()
			b := &testEnv{T: t, s: b.s, raw: b.raw, org: b.org, agent: b.agent}
			first := b.claimedRun()
			b.inState(first, tc.left, tc.side)
			next := b.requeueAndClaim(first.RunID).Held()
			before := b.text(`SELECT e::text FROM effects e WHERE run_id = $1`, first.RunID)
			for _, what := range []string{"prepare", "begin", "void", "park", "keep", "tools"} {
				b.does(what, first, false)
			}
			if after := b.text(`SELECT e::text FROM effects e WHERE run_id = $1`, first.RunID); after != before {
				t.Errorf("a lost worker made %s of %s", after, before)
			}
			b.does("end", first, tc.left == "sending") // the lost worker knows the outcome, and no person has decided about the call
			if tc.left == "sending" {
				b.exec(`UPDATE effects SET state = 'sending', outcome = NULL WHERE run_id = $1`, first.RunID)
			}
			for _, what := range []string{"begin", "end", "void"} { // all fail, because the next attempt has not taken over the effect
				b.does(what, next, false)
			}
			other := effect("c", none) // the side effect, key and name in the ledger are used instead of these
			other.Key, other.Name = "another", "another"
			got := b.prepare(next, other, true)
			if got.State != tc.want || got.Sent != tc.sent || got.SideEffect != tc.side || got.Key != "key of c" || got.Name != "pay" ||
				string(got.Input) != `{"amount": 1}` || (got.State == domain.EffectDone) != (string(got.Outcome) == `{"output":1}`) {
				t.Errorf("the next attempt finds %+v", got)
			}
			b.does("end", first, false)
			b.does("end", next, false)
			if tc.void {
				b.does("void", next, true)
				b.does("void", next, false)
				b.does("begin", next, false)
				b.prepare(next, effect("c", tc.side), false)
			} else {
				b.does("void", next, false)
			}
			b.does("begin", next, tc.want == domain.EffectReady)
			b.does("begin", next, false)
			b.does("void", next, false)
			b.does("end", first, false)
			b.does("end", next, tc.want == domain.EffectReady)
			b.does("end", next, false)
		})
	}
}

func TestAnEffectIsEnteredOnceAndAsked(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	if e := b.prepare(held, effect("c", domain.SideEffectUnsafe), true); e.State != domain.EffectAwaiting || e.Sent || e.Waiting() != domain.ActionApproval {
		t.Errorf("to be approved: %+v", e)
	}
	b.does("begin", held, false)
	if e := b.prepare(held, domain.Effect{CallID: "d", SideEffect: domain.SideEffectIdempotent}, false); e.State != domain.EffectReady || string(e.Input) != "{}" {
		t.Errorf("without arguments: %+v", e)
	}
	if _, _, err := b.s.Executions.PrepareEffect(t.Context(), held, domain.Effect{CallID: "e", Input: json.RawMessage(`{`)}, false); err == nil {
		t.Error("broken arguments were entered")
	}
	other := b.claimedRun()
	if e := b.prepare(other, effect("c", domain.SideEffectUnsafe), false); e.State != domain.EffectReady {
		t.Errorf("the same call id in another run: %+v", e)
	}
}

// The lease is checked at the moment of sending, even if no process has noticed that it expired.
func TestNothingIsSentPastTheLease(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	b.inState(held, "ready", domain.SideEffectUnsafe)
	b.exec(`UPDATE open_runs SET lease_until = clock_timestamp()`)
	b.does("begin", held, false)
	b.wantEffect(held.RunID, "ready")
	if kept, err := b.s.Executions.Extend(t.Context(), []lease.Held{held}); err != nil || !kept.Extended[held.RunID] {
		t.Fatalf("extending: %v, %v", kept, err)
	}
	b.does("begin", held, true)
	b.exec(`UPDATE open_runs SET lease_until = clock_timestamp()`)
	b.does("end", held, true) // the outcome is still correct
}

// A call that is recorded as being sent, but was not sent, is made by the next attempt without a
// person's decision.
func TestTheNextAttemptMakesACallThatWasNotSent(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	b.inState(held, "sending", domain.SideEffectUnsafe)
	b.does("unsend of another", held, false)
	b.does("unsend", held, true)
	b.does("unsend", held, false)
	b.wantEffect(held.RunID, "ready sent")

	next := b.requeueAndClaim(held.RunID).Held()
	b.does("unsend", next, false)
	if e := b.prepare(next, effect("c", domain.SideEffectUnsafe), false); e.State != domain.EffectReady {
		t.Errorf("state of the effect = %s, want ready", e.State)
	}
	b.does("begin", next, true)
	b.does("unsend", held, false)
}

func TestOutcomesOfEndedRunsAreDropped(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	b.inState(held, "sending", domain.SideEffectUnsafe)
	if _, _, err := b.s.Executions.Cancel(t.Context(), b.org, "", held.RunID); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"prepare", "begin", "end", "unsend", "void", "park", "keep", "tools"} {
		b.does(what, held, false)
	}
	b.wantEffect(held.RunID, "sending sent")
}

// race runs functions concurrently and reports for each whether it succeeded.
func race(t *testing.T, things ...func() (bool, error)) (done []bool) {
	t.Helper()
	done = make([]bool, len(things))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, thing := range things {
		wg.Go(func() {
			<-start
			var err error
			if done[i], err = thing(); err != nil {
				t.Errorf("racer %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	return done
}

func TestOnlyOneOfManySendersMaySend(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for range 20 {
		held := b.claimedRun()
		b.inState(held, "ready", domain.SideEffectUnsafe)
		begin := func() (bool, error) { return b.try("begin", held) }
		void := func() (bool, error) { return b.try("void", held) }
		done := race(t, begin, void, begin, begin, void, begin)
		n := 0
		for _, d := range done {
			if d {
				n++
			}
		}
		sent := done[0] || done[2] || done[3] || done[5]
		if state := b.text(`SELECT state FROM effects WHERE run_id = $1`, held.RunID); n != 1 || (state == "sending") != sent {
			t.Errorf("%v, and the effect is %s", done, state)
		}
	}
}

// A worker that was wrongly considered lost begins or finishes sending a call. At the same time,
// another attempt continues the run.
func TestALateSenderAndTheNextAttemptAgree(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for n := range 20 {
		left := []string{"ready", "sending"}[n%2]
		first := b.claimedRun()
		b.inState(first, left, domain.SideEffectUnsafe)
		late := map[string]string{"ready": "begin", "sending": "end"}[left]
		var found domain.EffectState
		done := race(t,
			func() (bool, error) { return b.try(late, first) },
			func() (bool, error) {
				next := b.requeueAndClaim(first.RunID).Held()
				e, kept, err := b.s.Executions.PrepareEffect(t.Context(), next, effect("c", domain.SideEffectUnsafe), false)
				found = e.State
				return kept, err
			})
		want := map[string]domain.EffectState{
			"ready false": domain.EffectReady, "ready true": domain.EffectAwaiting,
			"sending false": domain.EffectAwaiting, "sending true": domain.EffectDone,
		}[fmt.Sprint(left, " ", done[0])]
		if !done[1] || found != want {
			t.Errorf("%s: the late worker %v, the next finds %s, want %s", left, done[0], found, want)
		}
	}
}

// While a transaction takes a run away from its worker, a write of that worker waits for the
// transaction and then changes nothing.
func TestWritersWaitWhileTheirRunIsTaken(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for what, left := range map[string]string{
		"park": "awaiting", "keep": "ready", "tools": "ready", "files": "ready", "no files": "ready", "folder": "ready",
	} {
		held := b.claimedRun()
		b.inState(held, left, domain.SideEffectUnsafe)
		b.during(what, `UPDATE open_runs SET fence = fence + 1 WHERE run_id = $1`, held.RunID, waitsForLock, func() {
			b.does(what, held, false)
		})
	}
}

// A write in a statement with writes for other runs does not wait for a transaction that takes its
// run away. The write is repeated until that transaction is committed, and then changes nothing.
func TestGroupedWritersRepeatWhileTheirRunIsTaken(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for what, left := range map[string]string{"step": "ready", "prepare": "ready", "begin": "ready", "void": "ready", "end": "sending"} {
		held := b.claimedRun()
		b.inState(held, left, domain.SideEffectUnsafe)
		taking := map[bool]string{true: `DELETE FROM open_runs WHERE run_id = $1`, false: `UPDATE open_runs SET fence = fence + 1 WHERE run_id = $1`}[what == "end"]
		repeats := `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%write\_progress%'
			AND state = 'idle' AND query_start > '` + b.text(`SELECT clock_timestamp()::text`) + `'`
		b.during(what, taking, held.RunID, repeats, func() {
			b.does(what, held, false)
		})
	}
}

// waitsForLock counts the transactions that wait for a lock.
const waitsForLock = `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

// during makes a change in a transaction and concurrently runs f. The query in the argument waits
// shows whether f waits for the transaction. When f waits, the transaction is committed.
func (b *testEnv) during(what, change, runID, waits string, f func()) {
	b.Helper()
	tx, err := b.raw.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tx.ExecContext(b.Context(), change, runID); err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for waiting := "0"; waiting == "0" && !isClosed(done); {
		waiting = b.text(waits)
	}
	if isClosed(done) {
		b.Errorf("%s did not wait", what)
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	<-done
}

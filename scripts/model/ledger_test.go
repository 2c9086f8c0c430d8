package model

import "time"

// kind is the side effect that a tool declares. It models domain.SideEffect.
type kind int

const (
	harmless kind = iota
	idempotent
	unsafe
)

// The states of an effect. The documentation of domain.EffectState lists their transitions.
const (
	ready    = "ready"
	awaiting = "awaiting"
	sending  = "sending"
	done     = "done"
	denied   = "denied"
	happened = "happened"
	void     = "void"
)

// effect is a row of the table effects.
type effect struct {
	call   int
	turn   int // number of the turn that requested the effect
	kind   kind
	state  string
	fence  int
	sent   bool // whether sent_at is set
	sender *task
	ok     bool // the outcome: whether the effect was executed
	answer string
	ruled  string // the person's last decision
}

// prepared is the result of PrepareEffect for one call of a tool.
type prepared struct {
	effect
	held bool
}

// prepareEffect models PrepareEffect. It inserts the effect, or takes over the effect that an
// earlier attempt has inserted.
func (db *database) prepareEffect(r *run, fence int, e effect, asks bool) prepared {
	if !db.holds(r, fence, false, "an effect") {
		return prepared{}
	}

	old := r.effects[e.call]
	if old == nil {
		e.state, e.fence = ready, fence
		if asks {
			e.state = awaiting
		}
		r.effects[e.call] = &e
		return prepared{e, true}
	}

	old.state = db.takenAs(old)
	if !settled(old.state) {
		old.fence = fence
	}
	return prepared{*old, true}
}

// takenAs returns the state that write_progress gives to an effect of an earlier attempt.
func (db *database) takenAs(e *effect) string {
	switch {
	case e.state == void, e.state == sending && (e.kind != unsafe || db.sim.mutant.unsafeSentAgain):
		return ready
	case e.state == sending:
		return awaiting
	default:
		return e.state
	}
}

func settled(state string) bool { return state == done || state == denied || state == happened }

// beginSend models BeginSend: it records that the call is about to be sent.
func (db *database) beginSend(r *run, fence, call int, sender *task) bool {
	s, o := db.sim, r.open
	lax := s.mutant.sendWithoutFence
	if !db.holds(r, fence, lax, "the last check of an effect") {
		return false
	}
	e := r.effects[call]
	if e == nil || e.state != ready || !lax && (e.fence != fence || o.leaseUntil <= s.now) {
		return false
	}
	e.state, e.sent, e.sender = sending, true, sender
	return true
}

// endSend models EndSend: it records the outcome of a call. The run must be open, but another
// worker may hold it.
func (db *database) endSend(r *run, fence, call int, ok bool, answer string) bool {
	e := r.effects[call]
	if r.open == nil || e == nil || e.fence != fence || e.state != sending {
		return false
	}
	e.state, e.ok, e.answer = done, ok, answer
	return true
}

// cancelSend models CancelSend: it records that the call was not sent after all.
func (db *database) cancelSend(r *run, fence, call int, sender *task) bool {
	e := r.effects[call]
	if r.open == nil || e == nil || e.fence != fence || e.state != sending || e.sender != sender && !db.sim.mutant.cancelAnySend {
		return false
	}
	e.state = ready
	return true
}

// voidEffect models VoidEffect: it records that the call will never be sent.
func (db *database) voidEffect(r *run, fence, call int) bool {
	if !db.holds(r, fence, false, "voiding an effect") {
		return false
	}
	e := r.effects[call]
	if e == nil || e.fence != fence || e.state != ready || e.sent {
		return false
	}
	e.state = void
	return true
}

// wait is the result of parking a run.
type wait struct{ parked, settled bool }

// park models Store.park: the run waits for a person's decision about a call.
func (db *database) park(r *run, fence, call int) wait {
	if !db.holds(r, fence, false, "parking") {
		return wait{}
	}

	e := r.effects[call]
	if e.state != awaiting && e.state != sending {
		return wait{settled: true}
	}

	o := r.open
	o.unknown = e.sent // as Effect.Waiting does
	o.action, o.actionUntil, o.parkedAt = call, db.sim.now+actionTimeout, db.sim.now
	e.state = awaiting
	o.status, o.dispatched, o.leaseUntil, o.retryCause = parked, false, 0, false
	o.fence++
	return wait{parked: true}
}

// decisionResult is the result of Decide: it describes what a person's decision has changed.
type decisionResult struct {
	ended   []ended
	resumed bool
}

// decide models decideOpen: it applies a person's decision. unknown is set if the person had to
// decide about a call with an unknown outcome.
func (db *database) decide(r *run, call int, unknown bool, how string) decisionResult {
	s, o := db.sim, r.open
	if o == nil || o.status != parked || o.action != call || o.unknown != unknown || s.now >= o.actionUntil {
		return decisionResult{}
	}

	e := r.effects[call]
	e.ruled = how
	switch how {
	case "approve":
		e.state = ready
	case "resend":
		e.state, e.sent = ready, false
		s.receiver.allowed[intent{r.id, e.turn}]++
	case "deny":
		e.state = denied
	case "happened":
		e.state = happened
	default: // the decision is to abandon the run
		out := []ended{{r, o.replyTo}}
		db.end(r, failed, "abandoned by a person", "a person")
		return decisionResult{ended: out}
	}

	o.status, o.dispatched, o.notBefore, o.waitsSince = queued, false, 0, s.now
	o.deadline += s.now - o.parkedAt
	o.action, o.actionUntil, o.parkedAt = 0, 0, 0
	return decisionResult{resumed: true}
}

// intent is one effect that a run should have, even if several calls request the effect.
type intent struct{ run, turn int }

// receiver is the service that tools call. It executes every request. The receiver of an idempotent
// tool executes requests with the same key only once.
type receiver struct {
	sent    map[intent]int
	keys    map[intent]map[string]bool
	allowed map[intent]int // number of requests that a person has allowed
}

func newReceiver() *receiver {
	return &receiver{sent: map[intent]int{}, keys: map[intent]map[string]bool{}, allowed: map[intent]int{}}
}

// receive executes a request and checks that the run may have the effect.
func (w *receiver) receive(s *sim, r *run, turn int, kind kind, key string) {
	of := intent{r.id, turn}
	w.sent[of]++
	s.effects++
	switch kind {
	case unsafe:
		if w.sent[of] > 1+w.allowed[of] {
			s.brokenf("a side effect happens once", "the call in turn %d of run %d was sent %d times", turn, r.id, w.sent[of])
		}
	case idempotent:
		if w.keys[of] == nil {
			w.keys[of] = map[string]bool{}
		}
		w.keys[of][key] = true
		if len(w.keys[of]) > 1 {
			s.brokenf("a side effect keeps its key", "the call in turn %d of run %d was sent with %d keys", turn, r.id, len(w.keys[of]))
		}
	case harmless:
	}

	if e := r.effects[turnCall(r, turn)]; e != nil && e.state == denied {
		s.brokenf("a denied call is not made", "the call in turn %d of run %d was sent", turn, r.id)
	}
}

// turnCall returns the ID of the call that the given turn of a run has recorded, or 0.
func turnCall(r *run, turn int) int {
	for _, st := range r.steps {
		if !st.tool && st.turn == turn {
			return st.call
		}
	}
	return 0
}

const personThinks = 20 * time.Second

package model

import (
	"fmt"
	"time"
)

// These durations are the same as in shared/bus/tools.go and workers/internal/toolserver.
const (
	acceptWithin = 1800 * time.Millisecond
	offerFor     = 850 * time.Millisecond
	beatEvery    = 2 * time.Second
	lostAfter    = 6 * time.Second
	callTime     = 60 * time.Second
	keepWithin   = 10 * time.Second
	keepPause    = 200 * time.Millisecond
)

// toolWorker models a process with a toolserver.Server.
type toolWorker struct {
	sim  *sim
	proc *process
}

func (s *sim) beginToolWorker(n int) {
	w := &toolWorker{sim: s, proc: &process{name: fmt.Sprintf("tool worker %d", n)}}
	w.proc.start = func() { s.beginToolWorker(n) }
	s.bus.workers[n] = w
}

// request is a call that an agent worker sends to a tool worker. The fields run, fence, kind, call
// and expires model the capability of the call (contract.Capability).
type request struct {
	run         *run
	fence       int
	turn, call  int
	kind        kind
	key         string // idempotency key of the effect; empty: the tool ledger does not record the call
	expires     time.Duration
	taken       bool
	woken       *box[struct{}]
	reply       *reply
	handledLast *toolWorker
}

// reply is a tool worker's reply. It models contract.ToolReply.
type reply struct {
	ok, stale, retryable, unknown bool
}

// callTool models remoteTool.call. It also records the result.
func (a *attempt) callTool(t *task, turn, call int, w wanted) error {
	if err := a.cause(nil); err != nil {
		return err
	}
	if !a.sim.mutant.callBeforeTurn {
		if err := a.makeCall(t, turn, call, w); err != nil {
			return a.cause(err)
		}
	}
	if err := a.cause(nil); err != nil {
		return err
	}
	return a.record(t, step{turn: turn, call: call, tool: true})
}

// makeCall models remoteTool.effect. If the call may be repeated, it models remoteTool.send.
func (a *attempt) makeCall(t *task, turn, call int, w wanted) error {
	if !w.asks && w.kind == harmless {
		return a.send(t, turn, call, w.kind, "")
	}

	key := fmt.Sprintf("%d/%d", a.hold.run, call) // models contract.EffectKey
	if a.sim.mutant.keyOfAttempt {
		key = fmt.Sprintf("%s/%d", key, a.claim.fence)
	}

	e, err := ask(t, fmt.Sprintf("PrepareEffect of call %d of run %d", call, a.hold.run), func() prepared {
		return a.sim.db.prepareEffect(a.claim.run, a.claim.fence, effect{call: call, turn: turn, kind: w.kind}, w.asks)
	})
	if err != nil || !e.held {
		return errRetry
	}

	switch e.state {
	case ready:
		return a.send(t, turn, call, w.kind, key)
	case awaiting:
		return parkError{call}
	}
	return nil // the call was denied or its outcome is known, so the model gets the result
}

// send models sendNow: it sends the call to a tool worker and waits for the reply.
func (a *attempt) send(t *task, turn, call int, k kind, key string) error {
	s := a.sim
	q := &request{
		run: a.claim.run, fence: a.claim.fence, turn: turn, call: call, kind: k, key: key, woken: &box[struct{}]{},
		expires: min(s.now+callTime, a.claim.deadline),
	}

	for until := s.now + acceptWithin; !q.taken && s.now < until; {
		if s.bus.down() {
			return errRetry // the product's ErrToolsAway
		}
		q.offer(s)
		for offered := s.now; !q.taken && s.now-offered < offerFor; {
			if _, ok := q.woken.take(t, offerFor); !ok {
				break
			}
		}
		if a.hold.cause != nil {
			return a.hold.cause
		}
	}

	if !q.taken {
		return a.unsent(t, q)
	}

	for silent := time.Duration(0); q.reply == nil; {
		if _, ok := q.woken.take(t, beatEvery); ok {
			continue
		}
		switch silent += beatEvery; {
		case a.hold.cause != nil:
			return a.hold.cause
		case s.now >= a.claim.deadline:
			return errDeadline
		case !q.handledLast.proc.dead && !q.handledLast.proc.frozen(s.now) && !s.bus.down() && s.now < q.expires:
			silent = 0 // the reply was a progress message without a result
		case silent > lostAfter:
			return a.lostCall(q)
		}
	}

	switch {
	case q.reply.stale, q.reply.retryable:
		return errRetry
	case q.reply.unknown:
		return a.lostCall(q)
	}
	return nil
}

// unsent handles a call that no tool worker has accepted. If no worker can accept the call any
// more, the language model gets an error as the result of the call.
func (a *attempt) unsent(t *task, q *request) error {
	if q.key == "" {
		return nil
	}

	voided, err := ask(t, fmt.Sprintf("VoidEffect of call %d", q.call), func() bool {
		return a.sim.db.voidEffect(q.run, q.fence, q.call)
	})

	switch {
	case err != nil:
		return errRetry
	case !voided:
		return a.lostCall(q)
	}
	return nil
}

// lostCall models remoteTool.lost: the worker accepted the call, but did not reply.
func (a *attempt) lostCall(q *request) error {
	if q.kind == unsafe && !a.sim.mutant.unsafeSentAgain {
		return parkError{q.call}
	}
	return errRetry
}

// offer sends the call to a tool worker. If the worker is frozen, it accepts the call after the
// freeze.
func (q *request) offer(s *sim) {
	w := s.bus.workers[s.rng.n(len(s.bus.workers))]
	if w.proc.dead || s.bus.loses() {
		return
	}
	s.spawn(w.proc, func(t *task) { w.handle(t, q) })
}

// handle models Server.handle and call.execute: a tool worker executes a call and replies.
func (w *toolWorker) handle(t *task, q *request) {
	s := w.sim
	if s.now > q.expires {
		return
	}

	q.handledLast = w
	if !s.bus.loses() {
		q.taken = true
		q.woken.put(s, struct{}{})
	}

	t.step()
	out := w.carryOut(t, q)
	if !s.bus.loses() && q.reply == nil {
		q.reply = &out
		q.woken.put(s, struct{}{})
	}
}

// carryOut models how a tool worker sends a call: BeginSend records it in the ledger, the receiver
// executes it, and EndSend records the outcome.
func (w *toolWorker) carryOut(t *task, q *request) reply {
	s := w.sim
	receive := func() {
		s.tracef("%s sends call %d of run %d", w.proc.name, q.call, q.run.id)
		s.receiver.receive(s, q.run, q.turn, q.kind, q.key)
	}
	if q.key == "" {
		receive()
		return reply{ok: true}
	}
	if s.mutant.sendBeforeLedger {
		receive()
		t.step()
	}

	began, err := ask(t, fmt.Sprintf("BeginSend of call %d of run %d", q.call, q.run.id), func() bool {
		return s.db.beginSend(q.run, q.fence, q.call, t)
	})

	switch {
	case err != nil: // the product's sentUnsure
		w.write(t, fmt.Sprintf("CancelSend of call %d of run %d", q.call, q.run.id), func() bool {
			return s.db.cancelSend(q.run, q.fence, q.call, t)
		})
		return reply{retryable: true}
	case !began:
		return reply{stale: true}
	}

	t.step() // if the worker freezes at this point, it sends the call late; docs/reliability.md excludes this case
	if !s.mutant.sendBeforeLedger {
		receive()
	}

	t.sleep(s.rng.between(time.Millisecond, 3*time.Second))
	if s.faulty() && s.rng.in1000(20*s.faultRates.lost) { // the receiver's response is lost
		return reply{unknown: true}
	}

	w.write(t, fmt.Sprintf("EndSend of call %d of run %d", q.call, q.run.id), func() bool {
		return s.db.endSend(q.run, q.fence, q.call, true, "done")
	})
	return reply{ok: true}
}

// write models call.write: it retries a write to the tool ledger for some time.
func (w *toolWorker) write(t *task, what string, do func() bool) {
	for until := w.sim.now + keepWithin; w.sim.now < until; {
		if _, err := ask(t, what, do); err == nil {
			return
		}
		t.sleep(keepPause)
	}
}

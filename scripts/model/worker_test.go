package model

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// These durations are the same as in workers/internal/runner.
const (
	heartbeatEvery = 10 * time.Second
	lockedAgain    = 250 * time.Millisecond
	claimTime      = 10 * time.Second
	drainTime      = 20 * time.Second
	giveUp         = 4 * time.Second
	workerSlots    = 6
)

// Errors with which an attempt ends without completing its run.
var (
	errTaken    = errors.New("the run was taken")
	errLease    = errors.New("the lease ran out")
	errDraining = errors.New("the worker is stopping")
	errDeadline = errors.New("the deadline")
	errRetry    = errors.New("a failure that a retry may fix")
	errPoison   = errors.New("the run has killed too many workers")
	errJournal  = errors.New("the journal cannot be read")
	errLocked   = errors.New("another transaction has locked the run")
)

// parkError ends an attempt whose run waits for a person's decision about a call.
type parkError struct{ call int }

func (e parkError) Error() string { return fmt.Sprintf("call %d waits for a person", e.call) }

// work contains the tool calls that a run's language model requests: one turn for each call, and
// then a turn with the answer.
type work struct {
	calls  []wanted
	think  time.Duration // duration of each turn
	flaky  int           // number of turns in 1000 that fail
	deadly bool          // whether each turn kills its worker
}

type wanted struct {
	kind kind
	asks bool // whether a person must approve the call
}

// worker models a process with a Runner and a Sweeper.
type worker struct {
	sim       *sim
	proc      *process
	n         int
	busy      int
	freed     *box[struct{}] // signals that a slot is free
	held      []*heldRun
	freeSlots int // number of slots that the worker's finished runs have freed
	wake      *box[struct{}]
	draining  bool
	stream    int // number of the stream that the sweeper has seen last; see bus.made
	claiming  *group[runID, claimAnswer]
	runResult *group[runResult, finished]
}

// heldRun is one run that this worker holds.
type heldRun struct {
	run        int
	row        *run
	fence      int
	cause      error
	woken      *box[struct{}]
	message    *message
	leaseUntil time.Duration
}

func (h *heldRun) cancel(s *sim, cause error) {
	if h.cause == nil {
		h.cause = cause
		h.woken.put(s, struct{}{})
	}
}

// sleep waits for the duration d, or until the attempt's context is canceled.
func (h *heldRun) sleep(t *task, d time.Duration) error {
	if h.cause == nil && d > 0 {
		h.woken.take(t, d)
	}
	return h.cause
}

func (s *sim) beginWorker(n int) {
	w := &worker{sim: s, proc: &process{name: fmt.Sprintf("worker %d", n)}, n: n, freed: &box[struct{}]{}, wake: &box[struct{}]{}}
	w.proc.start = func() { s.beginWorker(n) }
	w.claiming = newGroup(w.claims)
	w.runResult = newGroup(func(t *task, all []runResult) ([]finished, error) {
		return ask(t, fmt.Sprintf("Finish %v", all), func() []finished { return s.db.finishAll(all) })
	})

	s.workers[n] = w
	s.spawn(w.proc, w.claiming.run)
	s.spawn(w.proc, w.runResult.run)
	s.spawn(w.proc, w.serve)
	s.spawn(w.proc, w.heartbeat)
	s.spawn(w.proc, w.watch)
	s.spawn(w.proc, w.dispatchNext)
	s.spawn(w.proc, w.sweep)
}

// serve models Runner.serve. It fetches at most as many job messages as the worker has free slots.
func (w *worker) serve(t *task) {
	for !w.draining {
		for w.busy >= workerSlots {
			w.freed.take(t, time.Second)
		}
		got, ok := w.sim.bus.fetch(t, workerSlots-w.busy)
		for _, m := range got {
			if w.draining {
				w.sim.bus.nak(m, 0)
				continue
			}
			w.sim.bus.ack(m)
			w.busy++
			w.sim.spawn(w.proc, func(t *task) {
				w.execute(t, m)
				w.busy--
				w.freed.put(w.sim, struct{}{})
			})
		}
		if !ok {
			t.sleep(time.Second)
		}
	}

	w.drain(t)
}

// drain models Runner.drain and the subsequent end of the process.
func (w *worker) drain(t *task) {
	until := w.sim.now + drainTime
	for w.busy > 0 && w.sim.now < until {
		w.freed.take(t, until-w.sim.now)
	}
	for _, h := range w.held {
		h.cancel(w.sim, errDraining)
	}
	until = w.sim.now + giveUp
	for w.busy > 0 && w.sim.now < until {
		w.freed.take(t, until-w.sim.now)
	}
	w.sim.kill(w.proc, t)
}

// attempt is one attempt at a run by a worker.
type attempt struct {
	*worker
	claim   claim
	message *message
	hold    *heldRun
	turns   int // number of recorded steps
}

// execute models Runner.execute. It handles one job message until the attempt has ended.
func (w *worker) execute(t *task, m *message) {
	s := w.sim
	c, asked, err := w.claim(t, m.job.id)
	if err != nil {
		return
	}
	if c.fence == 0 {
		if c.ended && c.result != "" {
			s.bus.done(m.job.id, m.job.replyTo, "", c.result)
		}
		return
	}

	a := &attempt{worker: w, claim: c.claim, message: m, hold: &heldRun{
		run: m.job.id, row: c.run, fence: c.fence, woken: &box[struct{}]{}, message: m, leaseUntil: asked + lease,
	}}
	a.executeClaimed(t)
	s.attemptEnds(a)
}

// claim models Runner.claim. It repeats the claim for at most claimTime.
func (w *worker) claim(t *task, id int) (c claimAnswer, asked time.Duration, err error) {
	for until := w.sim.now + claimTime; ; {
		asked = w.sim.now
		c, err = w.claiming.do(t, runID(id))
		pause := time.Second
		switch {
		case err == nil && c.locked:
			pause, err = lockedAgain, errLocked
		case err == nil:
			return c, asked, nil
		}

		pause = w.sim.jitter(pause)
		if w.sim.now+pause > until {
			return c, asked, err
		}
		t.sleep(pause)
	}
}

// executeClaimed models Runner.executeClaimed. It works on a claimed run until the result is saved,
// the run is requeued, or the lease is lost.
func (a *attempt) executeClaimed(t *task) {
	a.held = append(a.held, a.hold)
	err := a.try(t)
	var park parkError
	switch {
	case err == nil:
		a.finish(t, completed, fmt.Sprintf("run %d: answered under fence %d", a.hold.run, a.claim.fence))
	case errors.Is(err, errTaken):
	case errors.Is(err, errDraining), errors.Is(err, errLease):
		a.requeue(t, 0, false)
	case errors.Is(err, errDeadline):
		a.finish(t, timedOut, fmt.Sprintf("run %d: timed out", a.hold.run))
	case errors.As(err, &park):
		a.park(t, park.call)
	case errors.Is(err, errRetry):
		wait := a.sim.backoff(a.claim.attempts)
		if a.sim.now+wait < a.claim.deadline {
			a.requeue(t, wait, true)
			break
		}
		fallthrough
	default:
		a.finish(t, failed, fmt.Sprintf("run %d: %v", a.hold.run, err))
	}

	a.held = without(a.held, a.hold)
}

// backoff models the functions backoff and jitter in the runner (execute.go).
func (s *sim) backoff(attempts int) time.Duration {
	return s.jitter(min(time.Second<<min(attempts-1, 10), time.Minute))
}

func (s *sim) jitter(d time.Duration) time.Duration { return d*3/4 + s.rng.between(0, d/2) }

// persist repeats a write until the database is available and has executed it.
func (a *attempt) persist(t *task, write func() error) {
	for n := 1; write() != nil; n++ {
		t.sleep(min(a.sim.backoff(n), 5*time.Second))
	}
}

// finish saves the run's result and then notifies the requests that wait for it.
func (a *attempt) finish(t *task, status, result string) {
	s := a.sim
	publish := func() { s.bus.done(a.hold.run, a.message.job.replyTo, status, result) }
	if s.mutant.doneBeforeCommit {
		publish()
	}

	a.persist(t, func() error {
		f, err := a.runResult.do(t, runResult{a.claim.run, a.claim.fence, status, result})
		if f.locked && !s.mutant.lockedResultDropped {
			err = errLocked
		}
		if err != nil {
			return err
		}
		if f.slotFreed {
			a.free()
		}
		if f.saved && !s.mutant.doneBeforeCommit {
			publish()
		}
		return nil
	})
}

func (a *attempt) requeue(t *task, wait time.Duration, cause bool) {
	a.persist(t, func() error {
		back, err := ask(t, fmt.Sprintf("Requeue run %d", a.hold.run), func() bool {
			return a.sim.db.requeueHeld(a.claim.run, a.claim.fence, wait, cause)
		})
		if back {
			a.free()
		}
		return err
	})
}

// park saves that the run waits for a person's decision about a call.
func (a *attempt) park(t *task, call int) {
	var out wait
	a.persist(t, func() (err error) {
		out, err = ask(t, fmt.Sprintf("Park run %d", a.hold.run), func() wait { return a.sim.db.park(a.claim.run, a.claim.fence, call) })
		return err
	})
	switch {
	case out.settled:
		a.requeue(t, 0, false)
	case out.parked:
		a.free()
		a.sim.bus.done(a.hold.run, a.message.job.replyTo, parked, "")
	}
}

// try makes one attempt. It resumes after the last recorded step.
func (a *attempt) try(t *task) error {
	if a.claim.deaths >= maxDeaths {
		return errPoison
	}

	var steps []step
	if a.claim.attempts > 1 {
		var err error
		if steps, err = ask(t, "Steps", func() []step { return slices.Clip(a.claim.run.steps) }); err != nil {
			return a.cause(errRetry)
		}
	}

	turn, call := 0, 0 // the number of recorded turns, and the call of the last turn if it has no result yet
	for n, st := range steps {
		switch {
		case !st.tool && call == 0 && st.turn == turn:
			turn, call = turn+1, st.call
		case st.tool && call == st.call:
			call = 0
		default:
			a.sim.brokenf("journal steps are consecutive", "step %d of run %d is missing", n+1, a.hold.run)
			return errJournal
		}
	}

	a.turns = len(steps)
	calls := a.claim.run.work.calls
	for {
		if call != 0 {
			if err := a.callTool(t, turn-1, call, calls[turn-1]); err != nil {
				return err
			}
		}
		if err := a.think(t); err != nil || turn == len(calls) {
			return err
		}
		a.sim.calls++
		call = a.sim.calls // if the language model repeats this turn, its call gets another ID
		if a.sim.mutant.callBeforeTurn {
			if err := a.makeCall(t, turn, call, calls[turn]); err != nil {
				return a.cause(err)
			}
		}
		if err := a.record(t, step{turn: turn, call: call}); err != nil {
			return err
		}
		turn++
	}
}

// cause returns the reason why the attempt's context was canceled. If the context was not canceled,
// it returns err.
func (a *attempt) cause(err error) error {
	if a.hold.cause != nil {
		return a.hold.cause
	}
	return err
}

// think models one model call, which is a turn.
func (a *attempt) think(t *task) error {
	s, r := a.sim, a.claim.run
	left := a.claim.deadline - s.now
	if r.work.deadly {
		s.deadly[r.id]++
		if s.deadly[r.id] > maxDeaths {
			s.brokenf("poison runs end", "run %d has killed %d workers", r.id, s.deadly[r.id]-1)
		}
		t.step()
		s.kill(a.proc, t)
	}
	if err := a.hold.sleep(t, min(r.work.think, left)); err != nil {
		return err
	}

	t.step() // if the worker freezes at this point, its heartbeats fail to arrive
	switch {
	case s.now >= a.claim.deadline:
		return a.cause(errDeadline)
	case s.rng.in1000(r.work.flaky):
		return a.cause(errRetry)
	}
	return a.cause(nil)
}

// record models journal.Record: it saves a step.
func (a *attempt) record(t *task, st step) error {
	a.turns++
	k, err := ask(t, fmt.Sprintf("Journal step %d of run %d", a.turns, a.hold.run), func() kept {
		return a.sim.db.journal(a.claim.run, a.claim.fence, a.turns, st)
	})
	switch {
	case err != nil, k.conflict:
		return a.cause(errRetry)
	case !k.ok:
		return errTaken
	}
	return a.cause(nil)
}

// free models freeSlots.add: it counts a slot as free.
func (w *worker) free() {
	w.freeSlots++
	w.wake.put(w.sim, struct{}{})
}

// dispatchNext dispatches queued runs to free slots and publishes their jobs.
func (w *worker) dispatchNext(t *task) {
	for {
		w.wake.take(t, 0)
		freeSlots := w.freeSlots
		w.freeSlots = 0
		if w.sim.mutant.placesKept {
			continue
		}
		if jobs, err := ask(t, "DispatchNext", func() []*job { return w.sim.db.dispatchNext(freeSlots) }); err == nil {
			w.sim.bus.publishJobs(jobs...)
		}
	}
}

// heartbeat models Runner.heartbeat. Every ten seconds it extends the leases of all runs that the
// worker holds. It tries again sooner for runs whose rows were locked.
func (w *worker) heartbeat(t *task) {
	var locked []*heldRun
	for next := w.sim.now + heartbeatEvery; ; {
		if len(locked) > 0 && w.sim.now+lockedAgain < next {
			t.sleep(lockedAgain)
			locked = w.beat(t, w.inHand(locked))
			continue
		}
		t.sleep(max(next-w.sim.now, 0))
		next = w.sim.now + heartbeatEvery
		locked = w.beat(t, w.inHand(w.held))
	}
}

// inHand returns those of the given runs that the worker still holds.
func (w *worker) inHand(of []*heldRun) (kept []*heldRun) {
	for _, h := range of {
		if slices.Contains(w.held, h) {
			kept = append(kept, h)
		}
	}
	return kept
}

// beat models Runner.beat: one statement extends the leases of several runs.
func (w *worker) beat(t *task, all []*heldRun) (locked []*heldRun) {
	s := w.sim
	if len(all) == 0 {
		return nil
	}

	asked := s.now
	kept, err := ask(t, "Extend", func() []leased {
		kept := make([]leased, len(all))
		for n, h := range all {
			kept[n] = s.db.extend(h.row, h.fence)
		}
		return kept
	})
	if err != nil {
		return nil
	}

	for n, h := range all {
		switch kept[n] {
		case leaseLocked:
			locked = append(locked, h)
		case leaseLost:
			s.givesUp(h)
			h.cancel(s, errTaken)
		default:
			h.leaseUntil = asked + lease
		}
	}
	return locked
}

// watch models heldRuns.watch: it cancels an attempt when the run's lease has expired according to
// the local clock.
func (w *worker) watch(t *task) {
	for {
		t.sleep(time.Second)
		for _, h := range w.held {
			if w.sim.now > h.leaseUntil {
				h.cancel(w.sim, errLease)
			}
		}
	}
}

// stopRun models the callback of OnCancelled: it cancels the attempt at a run.
func (w *worker) stopRun(id int) {
	if w.proc.dead {
		return
	}
	for _, h := range w.held {
		if h.run == id {
			h.cancel(w.sim, errTaken)
		}
	}
}

package model

import (
	"slices"
	"time"
)

// The six promises of docs/reliability.md, applied to the protocol. Most are checked at the point
// where they could break. A check never uses the rule that protects its promise, so that it still
// works in a mutant, which omits the rule.

// claimed checks the promises at the moment at which a worker claims a run.
func (s *sim) claimed(r *run) {
	if p := s.awaited(r); p != nil {
		s.brokenf("a session is executed in order", "run %d, number %d of its session, begins before run %d has ended", r.id, r.seq, p.id)
	}
	if wait := s.now - r.open.dispatchedAt; s.quiet() && r.open.dispatched && r.open.status == queued && wait > firstRing/2 {
		s.brokenf("job messages are delivered", "run %d was claimed %v after its dispatch, although there was no fault", r.id, wait)
	}
}

// awaited returns an open run of the same session that must finish before the given run begins, or
// nil. A branch waits only for the run that it continues.
func (s *sim) awaited(r *run) *run {
	for _, p := range s.db.runs {
		if p.session == r.session && p.seq < r.seq && p.open != nil && (!r.branch || p.seq == r.waitsFor) {
			return p
		}
	}
	return nil
}

// fenced checks that each claim of a run has a new fence.
func (s *sim) fenced(r *run, fence int) {
	of := intent{r.id, fence}
	if s.fences[of] {
		s.brokenf("each claim has its own fence", "run %d was claimed twice under fence %d", r.id, fence)
	}
	s.fences[of] = true
}

// taken checks whether a run may be taken from the worker that holds it.
func (s *sim) taken(r *run, by string) {
	switch o := r.open; {
	case o.leaseUntil >= s.now:
		s.brokenf("an unexpired lease is kept", "%s takes run %d from its worker, whose lease is valid for another %v", by, r.id, o.leaseUntil-s.now)
	case s.db.startedAt >= s.now-lease && o.leaseUntil >= s.db.stoppedAt:
		s.brokenf("an outage does not cost an attempt", "%s takes run %d less than a lease after the database's start", by, r.id)
	}
}

// givesUp checks whether a heartbeat may report to a worker that it has lost a run.
func (s *sim) givesUp(h *heldRun) {
	if o := h.row.open; h.row.isLocked(s) && o.fence == h.fence && o.status == running {
		s.brokenf("a lock does not take a run from its worker", "run %d is locked, and its worker gives the run up", h.run)
	}
}

// refusedByLock checks that a run was rejected only because its session is locked.
func (s *sim) refusedByLock(o *order) {
	if s.db.locked[o.session] == 0 {
		s.brokenf("a lock delays only its own run", "run %d is not accepted, but its session %d was never locked", o.id, o.session)
	}
}

// lockedOut checks that a claim or a result was rejected only because its run is locked.
func (s *sim) lockedOut(id int, r *run) {
	if r == nil || !r.isLocked(s) {
		s.brokenf("a lock delays only its own run", "run %d is rejected as if it were locked", id)
	}
}

// ends checks the end of a run, before the run's open row is deleted.
func (s *sim) ends(r *run, status, by string) {
	o := r.open
	if status == timedOut && (s.now < o.deadline || o.status == parked) {
		s.brokenf("a run is not ended before its deadline", "run %d, %s, times out %v before its deadline", r.id, o.status, o.deadline-s.now)
	}
	if by == "EndUnanswered" && (o.status != parked || o.actionUntil > s.now) {
		s.brokenf("a person has the time to decide", "run %d, %s, fails as undecided", r.id, o.status)
	}
	if by == "EndPoison" && (o.status != queued || o.deaths < maxDeaths) {
		s.brokenf("only poison runs are ended as poison", "run %d is held by its worker", r.id)
	}
	if status != completed {
		return
	}

	for _, e := range r.effects {
		if (e.sent && !settled(e.state) || e.state == awaiting) && !answered(r, e.call) { // a result in the journal settles the call, too
			s.brokenf("an unknown outcome is reported", "run %d completes with call %d %s", r.id, e.call, e.state)
		}
		if sent := s.receiver.sent[intent{r.id, e.turn}]; e.state == done && e.ok && sent == 0 {
			s.brokenf("a call reported as executed was executed", "call %d of run %d was never sent", e.call, r.id)
		}
	}
}

func answered(r *run, call int) bool {
	return slices.ContainsFunc(r.steps, func(st step) bool { return st.tool && st.call == call })
}

// attemptEnds checks a run after its worker has ended an attempt.
func (s *sim) attemptEnds(a *attempt) {
	if o := a.claim.run.open; o != nil && o.status == running && o.fence == a.claim.fence {
		s.brokenf("an attempt ends with its outcome", "the attempt at run %d ended before the outcome of fence %d was written", a.hold.run, o.fence)
	}
}

// slowest is the longest duration of a statement that began before the faults ended. When the
// faults have ended, polls may still wait for such a statement.
const slowest = 3 * time.Second

// waited checks how long a request had to wait for its notification after the run had finished.
func (s *sim) waited(w *waiter) {
	r := s.db.byID(w.id)
	if r == nil || r.status == "" {
		return
	}
	from := max(w.settled, r.ended)
	switch took := s.now - from; {
	case s.quiet() && took > time.Second:
		s.brokenf("a wait ends with its run", "a request that waits for run %d was notified %v late, although there was no fault", w.id, took)
	case s.now-max(from, s.calm+slowest) > 3*pollEvery:
		s.brokenf("a wait ends with its run", "a request that waits for run %d was notified %v late", w.id, took)
	}
}

// stuck checks a request whose wait for a run has reached its limit.
func (s *sim) stuck(w *waiter) { s.waited(w) }

// learns checks the response that a client has received. asked is the time at which the client sent
// the request.
func (s *sim) learns(o order, a answer, asked time.Duration) {
	if a.code == 404 {
		s.brokenf("an expired key is replaced", "key %s is rejected", o.hash())
	}
	if a.code != 200 && a.code != 202 {
		return
	}
	if r := s.db.byID(a.run); r != nil && r.status != "" && r.expires < asked {
		s.brokenf("an expired key is replaced", "the response for key %s is run %d, whose retention period has ended", o.hash(), r.id)
	}
	if o.key != "" {
		known := s.keys[o.hash()]
		if known != 0 && known != a.run && s.retained(known) && s.retained(a.run) {
			s.brokenf("one run per key", "key %s: one client got run %d and another run %d", o.hash(), known, a.run)
		}
		s.keys[o.hash()] = max(known, a.run)
	}

	known := s.results[a.run]
	if a.result == "" {
		a.result = known.result
	}
	if known.result != "" && known.result != a.result {
		s.brokenf("equal answers per key", "run %d: one client got %q and another %q", a.run, known.result, a.result)
	}

	s.results[a.run] = a
}

// retained reports whether a run still holds its key, because the run's retention period has not
// ended.
func (s *sim) retained(id int) bool {
	r := s.db.byID(id)
	return r != nil && (r.status == "" || r.expires > s.now)
}

// watchSlots checks every second that free slots are used and deadlines are kept.
func (s *sim) watchSlots(t *task) {
	for {
		t.sleep(time.Second)
		if s.now < s.calm+10*time.Second {
			continue
		}
		used := 0
		for _, r := range s.db.runs {
			if r.open != nil && r.open.dispatched {
				used++
			}
		}
		for _, r := range s.db.runs {
			o := r.open
			if o == nil {
				continue
			}
			if late := s.now - o.deadline; late > overdueBy && o.status != parked {
				s.brokenf("a run ends by its deadline", "run %d is %s %v after its deadline", r.id, o.status, late)
			}
			if o.status != queued || o.dispatched || o.notBefore > s.now || used >= s.slots || s.awaited(r) != nil {
				s.free[r.id] = 0
				continue
			}
			if s.free[r.id]++; s.free[r.id] > 6 {
				s.brokenf("free slots are used", "run %d waits, and %d of %d slots are taken", r.id, used, s.slots)
			}
		}
	}
}

// atTheEnd checks all runs when the work is done or the time limit is reached.
func (s *sim) atTheEnd() {
	for _, r := range s.db.runs {
		if r.open != nil {
			s.brokenf("every accepted run ends", "run %d is %s, dispatched=%v, %v after the last fault and acceptance", r.id, r.open.status, r.open.dispatched, maxDrain)
		}
	}

	if s.clients > 0 {
		s.brokenf("every accepted run ends", "%d clients have no final result", s.clients)
	}

	for id, a := range s.results {
		r := s.db.byID(id)
		switch {
		case r == nil:
			s.brokenf("no accepted run is lost", "a client got run %d, which does not exist", id)
		case a.result != "" && a.result != r.result:
			s.brokenf("equal answers per key", "run %d: a client got %q, the row has %q", id, a.result, r.result)
		}
	}

	if n := len(s.bus.messages); n > 0 {
		s.brokenf("no job message is left", "%d job messages are left, the first for run %d", n, s.bus.messages[0].job.id)
	}

	for _, i := range s.ingresses {
		if len(i.waiting) > 0 {
			s.brokenf("no waiter is left", "requests wait for %d runs in %s", len(i.waiting), i.proc.name)
		}
	}

	for _, w := range s.workers {
		if !w.proc.dead && (w.busy > 0 || len(w.held) > 0) {
			s.brokenf("no slot is left taken", "%d slots are used and %d runs are held in %s", w.busy, len(w.held), w.proc.name)
		}
	}
}

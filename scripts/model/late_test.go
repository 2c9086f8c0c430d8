package model

import (
	"fmt"
	"time"
)

// The durations of late acceptance, in ingress/internal/dispatch, workers/internal/runner and insert_finished_runs.
const (
	lateTime   = 250 * time.Millisecond // after which the ingress accepts the run in the ordinary way
	lateWork   = 50 * time.Millisecond  // in which a run must finish
	lateMaxAge = 5 * time.Second        // of a job message, and of a run that is stored
)

// notLate is the code of an answer that makes an ingress accept the run in the ordinary way.
const notLate = -1

// drawLate makes some orders candidates for late acceptance: runs without calls in a session of their own. Only a third of the
// schedules have such orders, so that the others have as many calls as without late acceptance. With keys that expire within a
// second, the clients of expire would miss a run that finishes at its acceptance.
func (s *sim) drawLate(o *order) {
	if s.seed%3 > 0 || s.mutant.keyShorterThanWindow || s.rng.n(2) > 0 {
		return
	}
	o.late = true
	o.work = work{think: s.rng.between(time.Millisecond, 80*time.Millisecond)}
}

// tryLate models Dispatcher.tryLate. It returns false if the run must be accepted in the ordinary way.
func (i *ingress) tryLate(t *task, o *order, w *waiter) (answer, bool) {
	s := i.sim
	if !s.db.mayDispatch(s.db.look(o).used, o.org) {
		return answer{}, false
	}

	w.late = true
	s.bus.publishJobs(&job{id: o.id, org: o.org, key: o.key, replyTo: i, late: o})
	a, ok := w.result.take(t, lateTime)
	w.late = false
	if !ok || a.code == notLate {
		return answer{}, false
	}
	return a, true
}

// declined models a worker's reply that it has not stored the run, and the PubAck of a duplicate.
func (i *ingress) declined(id int) {
	if i.proc.dead || i.waiting[id] == nil {
		return
	}
	for _, w := range i.waiting[id].waits {
		if w.late && len(w.result.values) == 0 {
			w.result.put(i.sim, answer{code: notLate})
		}
	}
}

// decline sends the reply or the PubAck that makes an ingress accept the run in the ordinary way.
func (b *bus) decline(j *job) {
	if !b.loses() {
		b.sim.after(b.delay(), func() { j.replyTo.declined(j.id) })
	}
}

// executeLate models Runner.executeLate: it executes a run and stores it with its result.
func (w *worker) executeLate(t *task, m *message) {
	s, o := w.sim, m.job.late
	if s.now-m.at > lateMaxAge {
		return
	}

	created := s.now
	t.sleep(min(o.work.think, lateWork))
	if o.work.think > lateWork {
		s.bus.decline(m.job)
		return
	}

	result := fmt.Sprintf("run %d: answered before its acceptance", o.id)
	answer := func() {
		if !s.bus.loses() {
			s.after(s.bus.delay(), func() { m.job.replyTo.reply(o.id, completed, result) })
		}
	}
	if s.mutant.lateAnswerBeforeInsert {
		answer()
	}

	t.step()
	stored, err := ask(t, fmt.Sprintf("InsertFinished run %d", o.id), func() bool {
		return s.now-created <= lateMaxAge && s.db.insertFinished(o, result)
	})
	switch {
	case err != nil, !stored:
		s.bus.decline(m.job)
	case !s.mutant.lateAnswerBeforeInsert:
		answer()
	}
}

// insertFinished models insert_finished_runs with one run. It stores nothing if another run has the run's id or key.
func (db *database) insertFinished(o *order, result string) bool {
	if o.key != "" && db.byKey[o.hash()] != nil && !db.sim.mutant.lateWithoutIndex {
		return false
	}
	if same := db.byID(o.id); same != nil {
		if !db.sim.mutant.lateOverwrites || same.open == nil {
			return false
		}
		of := same.open
		db.sim.brokenf("every write is fenced", "a late acceptance writes run %d, which is %s under fence %d", o.id, of.status, of.fence)
		return true
	}

	now := db.sim.now
	r := &run{
		id: o.id, org: o.org, session: o.session, seq: 1, key: o.key, work: o.work, retention: o.retention, accepted: now,
		deadline: now + o.allowed, status: completed, result: result, ended: now, expires: now + o.retention, effects: map[int]*effect{},
	}
	db.runs = append(db.runs, r)
	db.lastAccepted = now
	db.sim.late++
	if other := db.oneOf(o); other != nil {
		db.sim.brokenf("one run per key", "runs %d and %d have the key %s", other.id, r.id, o.key)
	}
	if o.key != "" {
		db.byKey[o.hash()] = r
	}
	return true
}

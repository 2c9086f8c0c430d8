package model

import "time"

// The intervals and limits in workers/internal/sweep.
const (
	sweepEvery  = time.Second
	maxDispatch = 64
)

// sweep models Sweeper.sweep, once a second. If one part of a sweep fails, the other parts
// continue.
func (w *worker) sweep(t *task) {
	s := w.sim
	for {
		t.sleep(sweepEvery)
		w.deleteExpired(t)
		if s.mutant.noSweeper || len(s.db.find(func(*run, *openRow) bool { return true })) == 0 {
			continue
		}
		w.endRuns(t)
		w.requeueLost(t)
		w.dispatchWaiting(t)
		w.republishUnclaimed(t)
	}
}

// deleteExpired deletes runs whose retention period has ended.
func (w *worker) deleteExpired(t *task) {
	s := w.sim
	var found []*run
	for _, r := range s.db.runs {
		if r.key != "" && r.status != "" && r.expires <= s.now && s.db.byKey[r.hash()] == r {
			found = append(found, r)
		}
	}
	if len(found) > 0 && s.now >= s.db.downUntil && !s.mutant.noSweeper {
		_, _ = ask(t, "DeleteExpired", func() int { s.db.deleteExpired(found); return len(found) })
	}
}

// endRuns models EndOverdue, EndUnanswered and EndPoison. Each of them first reads the rows of the
// runs to finish. A second transaction finishes the runs, if there are any.
func (w *worker) endRuns(t *task) {
	db, m := w.sim.db, &w.sim.mutant
	for _, part := range []struct {
		what      string
		which     func(*run, *openRow) bool
		status    func(*openRow) string
		unguarded bool
	}{
		{"EndOverdue", db.isOverdue, overdue, false},
		{"EndUnanswered", db.isUnanswered, fails, false},
		{"EndPoison", db.isPoison, fails, m.poisonUnchecked},
	} {
		found := w.look(t, part.which)
		if len(found) == 0 {
			continue
		}
		all, err := ask(t, part.what, func() []ended { return db.endThose(part.what, found, part.which, part.status, part.unguarded) })
		if err != nil {
			return
		}
		for _, e := range all {
			w.sim.bus.cancel(e.run.id)
			w.sim.bus.done(e.run.id, e.replyTo, e.run.status, e.run.result)
		}
	}
}

// look models Store.find. A search without a result is not an event, because it changes nothing.
func (w *worker) look(t *task, which func(*run, *openRow) bool) []*run {
	if w.sim.now < w.sim.db.downUntil {
		return nil
	}
	found := w.sim.db.find(which)
	if len(found) > 0 {
		t.step()
	}
	return found
}

func (w *worker) requeueLost(t *task) {
	db := w.sim.db
	which := db.isLost
	if w.sim.mutant.requeueUnchecked {
		which = func(_ *run, o *openRow) bool { return o.dispatched && o.status == running && o.attempts < 3 }
	}
	if found := w.look(t, which); len(found) > 0 {
		_, _ = ask(t, "RequeueLost", func() int { db.requeueLost(found); return len(found) })
	}
}

// dispatchWaiting models DispatchWaiting: it dispatches queued runs to free slots.
func (w *worker) dispatchWaiting(t *task) {
	s := w.sim
	if s.mutant.placesKept || s.now < s.db.downUntil {
		return
	}
	if jobs, err := ask(t, "DispatchWaiting", func() []*job { return s.db.dispatchNext(maxDispatch) }); err == nil {
		s.bus.publishJobs(jobs...)
	}
}

// republishUnclaimed publishes again the jobs of runs that no worker has claimed in time. It
// postpones a run whose job message may still be waiting in the stream.
func (w *worker) republishUnclaimed(t *task) {
	s := w.sim
	if s.mutant.noRedispatch {
		return
	}

	made, ok := s.bus.ensure()
	if !ok {
		return
	}
	if w.stream != 0 && made != w.stream {
		if _, err := ask(t, "RepublishAll", func() int { s.db.republishAll(); return made }); err != nil {
			return
		}
	}

	w.stream = made
	found := w.look(t, s.db.isUnclaimed)
	if len(found) == 0 || s.bus.down() {
		return
	}

	oldest, some := s.bus.oldestUndelivered()
	t.step()
	var again, later []*run
	for _, r := range found {
		switch {
		case r.open == nil:
		case some && oldest < r.open.dispatchedAt:
			later = append(later, r)
		default:
			again = append(again, r)
		}
	}

	if jobs, err := ask(t, "Redispatch", func() []*job { return s.db.redispatch(again, later) }); err == nil {
		s.bus.publishJobs(jobs...)
	}
}

package model

import "time"

// The intervals and limits in workers/internal/sweep.
const (
	sweepEvery  = time.Second
	dispatchMax = 64
)

// sweep models Sweeper.sweep, once a second. A failing part does not stop the others.
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

// deleteExpired deletes runs after their retention.
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

// endRuns models EndOverdue, EndUnanswered and EndPoison. Each first reads the rows to end. If there are none, there is no second
// transaction.
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

// look models Store.find. If it finds no rows it is not an event, because it has no consequence.
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

// dispatchWaiting models DispatchWaiting.
func (w *worker) dispatchWaiting(t *task) {
	s := w.sim
	if s.mutant.placesKept || s.now < s.db.downUntil {
		return
	}
	if jobs, err := ask(t, "DispatchWaiting", func() []*job { return s.db.dispatchNext(dispatchMax) }); err == nil {
		s.bus.publishJobs(jobs...)
	}
}

// republishUnclaimed republishes the jobs of dispatched runs that no worker has claimed in time, unless the stream shows
// that their messages are still undelivered.
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

package model

import (
	"fmt"
	"time"
)

// The durations in ingress/internal/dispatch.
const (
	pollEvery   = 2 * time.Second
	lockTimeout = 50 * time.Millisecond // maximum wait of a batch for a session's row, and maximum age of the batch's snapshot
	lockedTime  = 2 * time.Second       // maximum wait of a request for a locked row
	acceptTries = 6
)

// answer is the response to a client.
type answer struct {
	code   int // HTTP status 200, 202, 404 or 503; 0: the connection broke
	run    int
	status string
	result string
}

// ingress models a Dispatcher, the part of a process that accepts runs and waits for their results.
type ingress struct {
	sim     *sim
	proc    *process
	waiting map[int]*watched
	due     *box[int]
	orders  *box[*submission] // runs that wait for the next batch
}

// submission is a run that waits for its batch.
type submission struct {
	order *order
	done  *box[acceptance]
}

// acceptance is the result for one run in a batch.
type acceptance struct {
	accepted
	err error
}

// watched is a run for whose result requests wait.
type watched struct {
	since  time.Duration
	subbed bool
	waits  []*waiter
}

// waiter is one request that waits for a run's result.
type waiter struct {
	id      int
	since   time.Duration
	settled time.Duration // time at which the waiter had subscribed and read the run's row
	known   int           // the run's required action at the beginning of the wait
	result  *box[answer]
}

// beginIngress starts an ingress, and starts it again whenever it dies.
func (s *sim) beginIngress(n int) {
	i := &ingress{sim: s, proc: &process{name: fmt.Sprintf("ingress %d", n)}, waiting: map[int]*watched{}, due: &box[int]{}, orders: &box[*submission]{}}
	i.proc.start = func() { s.beginIngress(n) }
	i.proc.onDeath = append(i.proc.onDeath, func() {
		for id, others := range s.bus.watching {
			s.bus.watching[id] = without(others, i)
		}
	})
	s.ingresses[n] = i
	s.spawn(i.proc, i.poll)
	s.spawn(i.proc, i.accepts)
}

func without[T comparable](all []T, one T) (kept []T) {
	for _, v := range all {
		if v != one {
			kept = append(kept, v)
		}
	}
	return kept
}

// submit models Submitter.Begin and Dispatcher.Await: it accepts a run and waits for its result.
func (i *ingress) submit(t *task, o order, limit time.Duration) answer {
	s := i.sim
	if o.key != "" {
		holder, err := ask(t, "ByKey", func() stored { return s.db.stored(s.db.holder(o.hash())) })
		if err != nil {
			return answer{code: 503}
		}
		if holder.id != 0 {
			return i.attached(t, holder, limit)
		}
	}

	s.ids++
	o.id, o.replyTo = s.ids, i
	if o.branch {
		o.previous = s.drawPrevious(o.session)
	}
	w := i.add(o.id, 0) // before the run exists, because its result may arrive before the database confirms the acceptance
	a, err := i.accept(t, &o)
	if err != nil || a.locked {
		i.remove(w)
		return answer{code: 503}
	}
	if a.missing {
		i.remove(w)
		return answer{code: 404}
	}
	if a.existing {
		i.remove(w)
		return i.attached(t, a.holder, limit)
	}

	w.settled = s.now
	return i.await(t, w, limit)
}

// accept models Dispatcher.accept and Store.Accept: it retries while the run's session is locked.
func (i *ingress) accept(t *task, o *order) (accepted, error) {
	s := i.sim
	if s.mutant.publishBeforeCommit {
		s.bus.publishJobs(&job{id: o.id, org: o.org, key: o.key, dispatchNo: 1, replyTo: i})
	}
	if s.mutant.answerBeforeCommit {
		s.after(s.rng.between(0, 100*time.Millisecond), func() {
			if s.now >= s.db.downUntil && !i.proc.dead {
				s.db.accept(o, s.db.look(o))
			}
		})
		return accepted{run: &run{id: o.id}}, nil
	}

	a, err := i.batched(t, o)
	for end, wait := s.now+lockedTime, 5*time.Millisecond; err == nil && a.locked && s.now < end; wait = min(2*wait, 320*time.Millisecond) {
		t.sleep(wait) // as whileLocked does
		a, err = i.batched(t, o)
	}

	if err != nil || a.locked || a.missing {
		return a, err
	}
	if a.job != nil && !s.mutant.publishBeforeCommit {
		s.bus.publishJobs(a.job)
	}
	return a, nil
}

// batched adds a run to the next batch and waits for the result of its acceptance.
func (i *ingress) batched(t *task, o *order) (accepted, error) {
	of := &submission{o, &box[acceptance]{}}
	i.orders.put(i.sim, of)
	a, _ := of.done.take(t, 0)
	return a.accepted, a.err
}

// accepts models the Dispatcher's batch.Group: it accepts batches one after another. While a batch
// commits, the next one grows.
func (i *ingress) accepts(t *task) {
	for {
		first, _ := i.orders.take(t, 0)
		batch := append([]*submission{first}, i.orders.values...)
		i.orders.values = nil
		orders := make([]*order, len(batch))
		for n, of := range batch {
			orders[n] = of.order
		}
		out, err := i.insert(t, orders)
		for n, of := range batch {
			a := acceptance{err: err}
			if err == nil {
				a.accepted = out[n]
			}
			if err != nil || a.conflict {
				a.accepted, a.err = i.recoverAccepted(t, of.order)
			}
			if a.err == nil && a.lost {
				a.accepted, a.err = i.explain(t, of.order)
			}
			of.done.put(i.sim, a)
		}
	}
}

// insert models accept_runs and accept_single_runs for a batch. It skips runs whose session another
// transaction locks. If several runs have the same key, it accepts the first of them.
func (i *ingress) insert(t *task, orders []*order) ([]accepted, error) {
	s, db := i.sim, i.sim.db
	look := func() []view {
		seen := make([]view, len(orders))
		for n, o := range orders {
			seen[n] = db.look(o)
			for _, before := range orders[:n] {
				if before.session == o.session {
					seen[n].head = false
				}
				seen[n].used[before.org]++
			}
		}
		return seen
	}

	seen, at := look(), s.now
	t.sleep(s.rng.between(0, 15*time.Millisecond)) // the time that a commit waits for the disk
	return ask(t, fmt.Sprintf("Accept %d runs, the first one run %d, key %q, session %d", len(orders), orders[0].id, orders[0].key, orders[0].session),
		func() []accepted {
			if s.now-at > lockTimeout {
				seen = look()
			}
			out, anyLocked := make([]accepted, len(orders)), false
			for _, o := range orders {
				anyLocked = anyLocked || db.locked[o.session] > s.now
			}
			for n, o := range orders {
				if db.locked[o.session] > s.now || anyLocked && s.mutant.lockFailsBatch {
					out[n].locked = true
					s.refusedByLock(o)
					continue
				}
				out[n] = db.accept(o, seen[n])
			}
			return out
		})
}

// acceptOnce models the product's acceptOnce: it accepts one run without a batch.
func (i *ingress) acceptOnce(t *task, o *order) (accepted, error) {
	out, err := i.insert(t, []*order{o})
	if err != nil {
		return accepted{}, err
	}
	return out[0], nil
}

// explain models explainLosers and acceptAgain. It reads the run that holds the key of a rejected
// run. If the retention period of the holder has ended, explain frees the key and tries again.
// Another process may free or take the key at the same time.
func (i *ingress) explain(t *task, o *order) (a accepted, err error) {
	s := i.sim
	for tries := 1; ; tries++ {
		holder, err := ask(t, "RunsByKey", func() stored { return s.db.stored(s.db.holder(o.hash())) })
		if err != nil {
			return accepted{}, err
		}
		if holder.id != 0 {
			return accepted{existing: true, holder: holder}, nil
		}
		freed, err := ask(t, fmt.Sprintf("free the key %q", o.key), func() bool { return s.db.freeExpired(o.hash()) })
		if err != nil {
			return accepted{}, err
		}
		switch {
		case s.mutant.freedByAnother && !freed:
			return accepted{missing: true}, nil
		case tries == acceptTries:
			return accepted{locked: true}, nil
		}
		if a, err = i.acceptOnce(t, o); err != nil || !a.lost {
			return a, err
		}
		t.sleep(time.Millisecond << tries)
	}
}

// recoverAccepted models Store.recoverAccepted: after an error, it finds out whether the run was
// accepted, and otherwise accepts it.
func (i *ingress) recoverAccepted(t *task, o *order) (accepted, error) {
	db := i.sim.db
	exists := func() (accepted, error) {
		r, err := ask(t, fmt.Sprintf("look run %d up", o.id), func() *run { return db.byID(o.id) })
		return accepted{run: r}, err
	}

	a, err := exists()
	if err != nil || a.run != nil {
		return a, err // the sweeper publishes the job later
	}

	a, err = i.acceptOnce(t, o)
	if err == nil && a.conflict { // the statement that returned an error was executed meanwhile
		a, err = exists()
	}
	return a, err
}

// attached models Await for a run that already existed.
func (i *ingress) attached(t *task, r stored, limit time.Duration) answer {
	if r.ended {
		return answer{200, r.id, r.status, r.result}
	}
	if r.status == parked {
		return answer{code: 202, run: r.id, status: parked}
	}
	return i.await(t, i.attach(t, r), limit)
}

func (i *ingress) await(t *task, w *waiter, limit time.Duration) answer {
	a, ok := w.result.take(t, limit)
	i.remove(w)
	if !ok {
		i.sim.stuck(w)
		return answer{code: 202, run: w.id}
	}
	i.sim.waited(w)
	return a
}

func (i *ingress) add(id, known int) *waiter {
	w := &waiter{id: id, since: i.sim.now, settled: i.sim.now, known: known, result: &box[answer]{}}
	of := i.waiting[id]
	if of == nil {
		of = &watched{since: i.sim.now}
		i.waiting[id] = of
	}
	of.waits = append(of.waits, w)
	return w
}

// attach models waiters.attach: it subscribes to the run's results before it reads the run's row,
// so that it misses no result.
func (i *ingress) attach(t *task, r stored) *waiter {
	w := i.add(r.id, r.action)
	t.step()
	t.sleep(i.sim.rng.between(0, 30*time.Millisecond)) // time until the server has the subscription
	if of := i.waiting[r.id]; of != nil && !of.subbed && !i.sim.bus.down() {
		of.subbed = true
		i.sim.bus.watching[r.id] = append(i.sim.bus.watching[r.id], i)
	}

	t.step()
	if !i.sim.mutant.attachWithoutLook {
		i.look(r.id)
	}

	w.settled = i.sim.now
	return w
}

func (i *ingress) remove(w *waiter) {
	of := i.waiting[w.id]
	if of == nil {
		return
	}
	if of.waits = without(of.waits, w); len(of.waits) == 0 {
		delete(i.waiting, w.id)
		i.sim.bus.watching[w.id] = without(i.sim.bus.watching[w.id], i)
	}
}

// reply models waiters.reply. If the reply contains no result, it only makes the ingress read the
// run's row.
func (i *ingress) reply(id int, status, result string) {
	if i.proc.dead {
		return
	}
	if result == "" {
		i.look(id)
		return
	}
	i.resolve(answer{200, id, status, result})
}

func (i *ingress) resolve(a answer) {
	if of := i.waiting[a.run]; of != nil {
		for _, w := range of.waits {
			if len(w.result.values) == 0 {
				w.result.put(i.sim, a)
			}
		}
	}
}

func (i *ingress) look(id int) { i.due.put(i.sim, id) }

// poll models waiters.poll and read. It reads the runs that are due. Every two seconds it also
// reads all runs for which requests have waited for at least two seconds.
func (i *ingress) poll(t *task) {
	s := i.sim
	for tick := s.now + pollEvery; ; {
		var due []int
		id, ok := i.due.take(t, max(tick-s.now, time.Millisecond))
		switch {
		case ok:
			due = append(due, id)
		case s.mutant.noPoll:
			tick = s.now + pollEvery
		default:
			tick = s.now + pollEvery
			for _, r := range s.db.runs { // in the order of the slice, because the seed does not determine the order of a map
				if of := i.waiting[r.id]; of != nil && of.since < s.now-pollEvery {
					due = append(due, r.id)
				}
			}
		}
		if len(due) > 0 {
			i.read(t, due)
		}
	}
}

// read models readSome: it calls AwaitedRuns, and ends the wait for each run that has finished or
// waits for a person.
func (i *ingress) read(t *task, due []int) {
	db := i.sim.db
	type seen struct {
		ended  []answer
		parked map[int]int
	}

	got, err := ask(t, "read awaited runs", func() seen {
		out := seen{parked: map[int]int{}}
		for _, id := range due {
			r := db.byID(id)
			switch {
			case r == nil:
			case r.status != "":
				out.ended = append(out.ended, answer{200, id, r.status, r.result})
			case r.open.status == parked:
				out.parked[id] = r.open.action
			}
		}
		return out
	})
	if err != nil {
		return // the next poll reads all these runs again
	}

	for _, a := range got.ended {
		i.resolve(a)
	}

	for _, id := range due {
		action, waits := got.parked[id]
		if of := i.waiting[id]; waits && of != nil {
			for _, w := range of.waits {
				if w.known != action && len(w.result.values) == 0 {
					w.result.put(i.sim, answer{code: 202, run: id, status: parked})
				}
			}
		}
	}
}

// runsEnded models Dispatcher.notifyFinished for runs that were finished without their workers. It
// notifies the workers and the waiting requests, and dispatches other runs to the slots that the
// runs have freed.
func (i *ingress) runsEnded(t *task, all []ended) {
	for _, e := range all {
		i.sim.bus.cancel(e.run.id)
		i.sim.bus.done(e.run.id, e.replyTo, e.run.status, e.run.result)
		i.dispatchNext(t)
	}
}

func (i *ingress) dispatchNext(t *task) {
	if jobs, err := ask(t, "DispatchNext", func() []*job { return i.sim.db.dispatchNext(1) }); err == nil {
		i.sim.bus.publishJobs(jobs...)
	}
}

package model

import (
	"fmt"
	"slices"
	"time"
)

const (
	orgs       = 2
	maxDrain   = 15 * time.Minute // maximum time from the last fault or acceptance to the end of all work
	patience   = time.Hour        // deadline of runs that must finish in time; too long for any fault to delay them past it
	settleTime = 45 * time.Second // time for messages in flight after the last run has finished
	overdueBy  = time.Minute      // allowed delay after a deadline, for promise 1
)

// faultRates determines the faults of a schedule. The fields step and lost are rates per 1000 steps
// or messages.
type faultRates struct {
	step int // rate at which a process dies, freezes or stalls between two steps
	lost int // rate at which a message, a statement or its reply is lost or late
	// maxBatchWait is the maximum time that the first claim or result of a batch waits for others
	// to share its statement. If maxBatchWait is 0, no claim or result waits, as with a fast
	// database.
	maxBatchWait time.Duration
	// every is the mean time between two faults. Each fault has a random kind from kinds.
	every time.Duration
	kinds []func(*sim)
}

// sim is one schedule with the state of the model.
type sim struct {
	seed   uint64
	rng    rng
	now    time.Duration
	events uint64
	queue  queue
	mutant mutant
	trace  func(string)
	found  *violation

	faultRates faultRates
	calm       time.Duration // time at which faults stop; 0: there are no faults
	slots      int           // number of slots of all workers together

	db        *database
	bus       *bus
	receiver  *receiver
	ingresses []*ingress
	workers   []*worker

	batches [maxCountedBatch + 1]int // number of batches of claims and results, by size

	ids, calls, kills, effects int
	clients                    int            // number of clients without a final result
	results                    map[int]answer // results that clients have received, by run
	keys                       map[string]int // ID of the run for each key, as clients have received it
	deadly                     map[int]int
	fences                     map[intent]bool
	free                       map[int]int // by run ID, for how many seconds in a row the run waited although a slot was free
	quietSince                 time.Duration
}

func (s *sim) faulty() bool { return s.now < s.calm }

// quiet reports whether the schedule has no faults. Everything must then be fast.
func (s *sim) quiet() bool { return s.calm == 0 }

func newSim(seed uint64, m mutant) *sim {
	s := &sim{
		seed: seed, rng: rng{seed}, mutant: m, results: map[int]answer{}, keys: map[string]int{}, deadly: map[int]int{},
		fences: map[intent]bool{}, free: map[int]int{}, receiver: newReceiver(),
	}

	s.db = &database{sim: s, startedAt: -time.Hour, byKey: map[string]*run{}, lastSeq: map[int]int{}, locked: map[int]time.Duration{}}
	s.bus = &bus{sim: s, exists: true, made: 1, known: map[string]time.Duration{}, window: duplicatesWindow, watching: map[int][]*ingress{}}
	if s.rng.n(2) == 0 {
		s.bus.window = 4 * time.Second // short, so that keys expire while faults happen
	}

	s.slots = 1 + s.rng.n(6)
	s.ingresses, s.workers, s.bus.workers = make([]*ingress, 2), make([]*worker, 2), make([]*toolWorker, 2)
	s.drawFaultRates()
	return s
}

// drawFaultRates draws the fault rates of a schedule. They differ between schedules, because
// frequent faults would hide the effects of rare ones.
func (s *sim) drawFaultRates() {
	if s.rng.n(3) == 0 {
		return
	}

	s.calm = s.rng.between(20*time.Second, 100*time.Second)
	s.faultRates.step = []int{0, 2, 6}[s.rng.n(3)]
	s.faultRates.lost = []int{0, 5, 20, 60}[s.rng.n(4)]
	s.faultRates.maxBatchWait = []time.Duration{0, 50 * time.Millisecond, 2 * time.Second}[s.rng.n(3)]
	s.faultRates.every = s.rng.between(2*time.Second, 15*time.Second)
	for _, kind := range faultKinds {
		if s.rng.n(2) == 0 {
			s.faultRates.kinds = append(s.faultRates.kinds, kind)
		}
	}
}

// upTo returns a random duration of at most maximum that ends before the faults stop.
func (s *sim) upTo(maximum time.Duration) time.Duration {
	return min(s.rng.between(maximum/50, maximum), max(s.calm-s.now, time.Millisecond))
}

var faultKinds = []func(*sim){
	func(s *sim) { s.kill(s.randomProcess(), nil) },
	func(s *sim) { s.kill(s.randomProcess(), nil) },
	func(s *sim) { s.freeze(s.randomProcess(), s.upTo(70*time.Second)) },
	func(s *sim) { s.freeze(s.randomProcess(), s.upTo(70*time.Second)) },
	func(s *sim) { // a worker is terminated
		w := s.workers[s.rng.n(len(s.workers))]
		w.draining = true
		s.tracef("%s is terminated", w.proc.name)
	},
	func(s *sim) { // PostgreSQL restarts
		if s.now >= s.db.downUntil {
			s.db.stoppedAt = s.now
		}
		s.db.downUntil = max(s.db.downUntil, s.now+s.upTo(45*time.Second))
		s.db.startedAt = s.db.downUntil
		s.db.epoch++
		s.tracef("the database is down until %v", s.db.downUntil)
	},
	func(s *sim) { // PostgreSQL is unreachable
		s.db.downUntil = max(s.db.downUntil, s.now+s.upTo(45*time.Second))
		s.tracef("the database is unreachable until %v", s.db.downUntil)
	},
	func(s *sim) {
		s.bus.downUntil = max(s.bus.downUntil, s.now+s.upTo(30*time.Second))
		s.tracef("the bus is down until %v", s.bus.downUntil)
	},
	func(s *sim) { s.bus.loseStore() },
	func(s *sim) { s.bus.truncate() },
	func(s *sim) { s.bus.forgetDuplicates() },
	func(s *sim) { s.bus.repeat() },
	(*sim).lock,
	(*sim).lock,
}

// lock lets another transaction lock the row of an open run, or of the run's session, for a while.
func (s *sim) lock() {
	open := s.db.find(func(*run, *openRow) bool { return true })
	if len(open) == 0 {
		return
	}
	r, until := open[s.rng.n(len(open))], s.now+s.upTo(45*time.Second)
	if s.rng.n(2) == 0 {
		r.lockedUntil = until
		s.tracef("run %d is locked until %v", r.id, until)
		return
	}
	s.db.locked[r.session] = until
	s.tracef("session %d is locked until %v", r.session, until)
}

// randomProcess returns a random process of Parley.
func (s *sim) randomProcess() *process {
	switch n := s.rng.n(6); n {
	case 0, 1:
		return s.workers[n].proc
	case 2, 3:
		return s.ingresses[n-2].proc
	default:
		return s.bus.workers[n-4].proc
	}
}

// injectFaults injects faults at random times until the schedule's faults stop.
func (s *sim) injectFaults(t *task) {
	for len(s.faultRates.kinds) > 0 && s.faulty() {
		t.sleep(s.rng.between(0, 2*s.faultRates.every))
		if s.faulty() {
			s.faultRates.kinds[s.rng.n(len(s.faultRates.kinds))](s)
		}
	}
}

// drawWork draws the model requests that a run will make.
func (s *sim) drawWork() (w work) {
	for range []int{0, 0, 1, 1, 2, 3}[s.rng.n(6)] {
		w.calls = append(w.calls, wanted{kind: kind(s.rng.n(3)), asks: s.rng.n(8) == 0})
	}

	w.think = s.rng.between(50*time.Millisecond, 2*time.Second)
	switch s.rng.n(8) {
	case 0:
		w.think = s.rng.between(5*time.Second, 25*time.Second)
	case 1:
		w.flaky = 300
	case 2:
		w.deadly = !s.quiet() && s.rng.n(2) == 0
	}
	return w
}

// load starts the clients. Some of them share a key, and some share a session.
func (s *sim) load(everybody *process) {
	for n := range 4 + s.rng.n(7) {
		o := order{org: s.rng.n(orgs), allowed: patience, work: s.drawWork()}
		o.session = 10*o.org + s.rng.n(3)
		// Only a third of the schedules have branches, so that in the other schedules enough runs
		// wait for earlier runs of their session.
		o.branch = s.seed%3 == 2 && s.rng.n(2) == 0
		if s.rng.n(2) == 0 {
			o.session = 100 + n
		}
		if s.rng.n(6) == 0 {
			o.allowed = s.rng.between(5*time.Second, 90*time.Second)
		}
		same := 1
		o.retention = time.Hour
		if s.rng.n(4) > 0 {
			o.key = fmt.Sprint("key ", s.rng.n(4)) // the same keys occur in other organizations
			if s.keys[o.hash()] != 0 {
				o.key = fmt.Sprint("key ", n+10)
			}
			s.keys[o.hash()] = -1
			same += s.rng.n(3)
			if s.rng.n(3) == 0 {
				s.expire(everybody, &o)
			}
		}
		span := min(s.calm, 40*time.Second) + 10*time.Second
		first := s.rng.between(0, span)
		for c := range same {
			start := first
			if c > 0 { // the client repeats its request while the run executes, or at about the time when the run finishes
				start += s.rng.between(0, o.work.think*time.Duration(1+len(o.work.calls))+100*time.Millisecond)
			}
			s.clients++
			s.spawn(everybody, func(t *task) {
				t.sleep(start)
				s.client(t, o)
				s.clients--
			})
		}
	}

	clear(s.keys)
}

// drawPrevious draws the run of a session that a new run continues. It returns the ID of an
// accepted run, or 0 for none.
func (s *sim) drawPrevious(session int) int {
	ids := []int{0}
	for _, r := range s.db.runs {
		if r.session == session {
			ids = append(ids, r.id)
		}
	}
	return ids[s.rng.n(len(ids))]
}

// expire gives a run a short retention period, and starts clients that use the run's key at about
// the time when this period ends. As in the product, the retention period is longer than the
// stream's duplicate window. The next run with the key has the same message IDs as this run.
func (s *sim) expire(everybody *process, o *order) {
	o.retention = s.rng.between(time.Millisecond, 3*time.Second)
	if !s.mutant.keyShorterThanWindow {
		o.retention += s.bus.window
	}

	again := *o
	s.clients++
	s.spawn(everybody, func(t *task) {
		var r *run
		for r == nil || r.status == "" {
			t.sleep(s.rng.between(100*time.Millisecond, time.Second))
			if r == nil {
				r = s.db.byKey[again.hash()]
			}
		}
		for range 1 + s.rng.n(3) {
			start := r.expires + s.rng.between(-20*time.Millisecond, 20*time.Millisecond)
			s.clients++
			s.spawn(everybody, func(t *task) {
				t.sleep(max(start-s.now, 0))
				s.client(t, again)
				s.clients--
			})
		}
		s.clients--
	})
}

// client sends a request. If the request has a key, client repeats the request until the result is
// final, and sometimes cancels the run.
func (s *sim) client(t *task, o order) {
	limit := s.rng.between(time.Second, 30*time.Second)
	for {
		i := s.ingresses[s.rng.n(len(s.ingresses))]
		asked := s.now
		a := s.request(t, i, func(t *task) answer { return i.submit(t, o, limit) })
		s.learns(o, a, asked)
		switch {
		case a.code == 200, o.key == "":
			return
		case a.code == 202 && s.rng.n(60) == 0:
			s.request(t, i, func(t *task) answer {
				all, err := ask(t, fmt.Sprintf("Cancel run %d", a.run), func() []ended {
					if r := s.db.byID(a.run); r != nil {
						return s.db.cancel(r)
					}
					return nil
				})
				if err == nil {
					i.runsEnded(t, all)
				}
				return answer{}
			})
		}
		t.sleep(s.rng.between(10*time.Millisecond, 3*time.Second))
	}
}

// request models an HTTP request. There is no response if the ingress dies or takes too long.
func (s *sim) request(t *task, i *ingress, handle func(*task) answer) answer {
	got := &box[answer]{}
	t.sleep(s.rng.between(0, 3*time.Millisecond))
	if i.proc.dead {
		return answer{}
	}
	i.proc.onDeath = append(i.proc.onDeath, func() { got.put(s, answer{}) })
	s.spawn(i.proc, func(t *task) { got.put(s, handle(t)) })
	a, _ := got.take(t, 2*time.Minute)
	return a
}

// person makes decisions about waiting runs. Some decisions are too late.
func (s *sim) person(t *task) {
	for {
		t.sleep(s.rng.between(0, 2*personThinks))
		waiting := s.db.find(func(_ *run, o *openRow) bool { return o.status == parked })
		if len(waiting) == 0 {
			continue
		}
		r := waiting[s.rng.n(len(waiting))]
		call, unknown := r.open.action, r.open.unknown
		how := []string{"approve", "approve", "deny"}[s.rng.n(3)]
		if unknown {
			how = []string{"resend", "happened", "abandon"}[s.rng.n(3)]
		}
		i := s.ingresses[s.rng.n(len(s.ingresses))]
		s.request(t, i, func(t *task) answer {
			d, err := ask(t, fmt.Sprintf("Decide %s about run %d", how, r.id), func() decisionResult { return s.db.decide(r, call, unknown, how) })
			if err == nil {
				i.runsEnded(t, d.ended)
			}
			if err == nil && d.resumed {
				i.dispatchNext(t)
			}
			return answer{}
		})
	}
}

// run executes the schedule. It returns nil if no promise was broken.
func (s *sim) run() *violation {
	everybody := &process{name: "the world"}
	for n := range s.ingresses {
		s.beginIngress(n)
	}

	for n := range s.workers {
		s.beginWorker(n)
	}

	for n := range s.bus.workers {
		s.beginToolWorker(n)
	}

	s.load(everybody)
	s.spawn(everybody, s.injectFaults)
	s.spawn(everybody, s.person)
	s.spawn(everybody, s.watchSlots)
	for s.found == nil && len(s.queue) > 0 && !s.over() {
		e := s.queue.pop()
		s.now = e.at
		if e.task != nil {
			s.resume(e)
		} else {
			e.do()
		}
	}

	if s.found == nil {
		s.atTheEnd()
	}

	s.release(everybody)
	return s.found
}

// over reports whether all work has been done for some time, or takes too long.
func (s *sim) over() bool {
	if s.now > max(s.calm, s.db.lastAccepted)+maxDrain {
		return true
	}
	if s.clients > 0 || s.faulty() || s.anyOpen() {
		s.quietSince = s.now
	}
	return s.now-s.quietSince > settleTime
}

func (s *sim) anyOpen() bool {
	for _, r := range slices.Backward(s.db.runs) {
		if r.open != nil {
			return true
		}
	}
	return false
}

// release ends the tasks that still wait at the end of a schedule.
func (s *sim) release(everybody *process) {
	all := []*process{everybody}
	for _, i := range s.ingresses {
		all = append(all, i.proc)
	}

	for _, w := range s.workers {
		all = append(all, w.proc)
	}

	for _, w := range s.bus.workers {
		all = append(all, w.proc)
	}

	for _, p := range all {
		for _, t := range p.tasks {
			if !t.over {
				t.stop()
			}
		}
	}
}

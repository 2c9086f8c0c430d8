package model

import (
	"fmt"
	"iter"
	"math/bits"
	"time"
)

// rng is the random number generator splitmix64. Its numbers are the same in every Go release.
type rng struct{ state uint64 }

func (r *rng) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// n returns a number from 0 up to but excluding maximum.
func (r *rng) n(maximum int) int {
	high, _ := bits.Mul64(r.next(), uint64(maximum))
	return int(high)
}

// between returns a duration from a to less than b.
func (r *rng) between(a, b time.Duration) time.Duration { return a + time.Duration(r.n(int(b-a))) }

// in1000 returns true with a probability of n in 1000.
func (r *rng) in1000(n int) bool { return n > 0 && r.n(1000) < n }

// event happens at a moment in virtual time. It resumes a task or calls the function in the field
// do.
type event struct {
	at   time.Duration
	no   uint64 // order of events at the same moment
	task *task
	turn uint64 // number of the task's wait that the event ends
	do   func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.no < o.no }

// queue is a heap of events, ordered by time.
type queue []event

func (q *queue) push(e event) {
	h := append(*q, e)
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
	*q = h
}

func (q *queue) pop() event {
	h := *q
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < last && h[child].before(&h[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}

	*q = h
	return first
}

// process models a process of the operating system, which may be killed, frozen and resumed. The
// state of its tasks is its memory.
type process struct {
	name    string
	dead    bool
	until   time.Duration // time at which the freeze ends
	frozeAt time.Duration
	tasks   []*task
	onDeath []func()
	start   func() // starts the process again some time after its death; nil: it stays dead
}

func (p *process) frozen(now time.Duration) bool { return p.until > now }

// task models a goroutine. It is a coroutine that yields where the goroutine would wait.
type task struct {
	sim   *sim
	proc  *process
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	turn  uint64 // number of the task's current wait; events for earlier waits have no effect
	over  bool
}

// killed is the panic value that ends a task of a dead process.
type killed struct{}

// spawn starts a task of a process, which runs f. The task first runs at the current virtual time.
func (s *sim) spawn(p *process, f func(*task)) {
	t := &task{sim: s, proc: p}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			t.over = true
			if cause := recover(); cause != nil {
				if _, ok := cause.(killed); !ok {
					panic(cause)
				}
			}
		}()
		f(t)
	})
	if len(p.tasks) > 64 { // remove ended tasks from time to time
		kept := p.tasks[:0]
		for _, other := range p.tasks {
			if !other.over {
				kept = append(kept, other)
			}
		}
		p.tasks = kept
	}

	p.tasks = append(p.tasks, t)
	s.wake(t, s.now)
}

// wake resumes a task at the given time, unless something else resumes it earlier.
func (s *sim) wake(t *task, at time.Duration) { s.plan(event{at: at, task: t, turn: t.turn}) }

func (s *sim) after(d time.Duration, do func()) { s.plan(event{at: s.now + d, do: do}) }

func (s *sim) plan(e event) {
	s.events++
	e.no = s.events
	s.queue.push(e)
}

// resume continues the task of an event. If the process of the task is frozen, the task continues
// after the freeze.
func (s *sim) resume(e event) {
	t := e.task
	switch {
	case t.over, t.turn != e.turn, t.proc.dead:
	case t.proc.frozen(s.now):
		e.at = t.proc.until
		s.plan(e)
	default:
		t.turn++
		t.next()
	}
}

// pass yields until another task or an event wakes this task.
func (t *task) pass() {
	if !t.yield(struct{}{}) {
		panic(killed{})
	}
}

func (t *task) sleep(d time.Duration) {
	t.sim.wake(t, t.sim.now+d)
	t.pass()
}

// kill ends a process with its tasks and memory. The argument by is the task that calls kill. If
// this task belongs to the process, kill does not return.
func (s *sim) kill(p *process, by *task) {
	if p.dead {
		return
	}

	p.dead = true
	s.kills++
	s.tracef("%s dies", p.name)
	for _, t := range p.tasks {
		if t != by && !t.over {
			t.stop()
			t.over = true
		}
	}

	p.tasks = nil
	for _, f := range p.onDeath {
		f()
	}

	if p.start != nil {
		s.after(s.rng.between(200*time.Millisecond, 5*time.Second), p.start)
	}
	if by != nil && by.proc == p {
		panic(killed{})
	}
}

func (s *sim) freeze(p *process, d time.Duration) {
	if !p.dead && !p.frozen(s.now) {
		p.until, p.frozeAt = s.now+d, s.now
		s.tracef("%s is frozen for %v", p.name, d.Round(time.Millisecond))
	}
}

// step waits between two actions of a task: some milliseconds, or as long as a fault lasts.
func (t *task) step() {
	s := t.sim
	if s.faulty() && s.faultRates.step > 0 && s.rng.in1000(s.faultRates.step) && t.proc.start != nil {
		switch s.rng.n(3) {
		case 0:
			s.kill(t.proc, t)
		case 1:
			s.freeze(t.proc, s.upTo(70*time.Second))
		default:
			t.sleep(s.rng.between(0, 5*time.Second))
		}
	}
	t.sleep(s.rng.between(100*time.Microsecond, 8*time.Millisecond))
}

// box is a queue through which tasks pass values to a task that waits for them.
type box[T any] struct {
	values []T
	waits  *task
	turn   uint64
}

func (b *box[T]) put(s *sim, v T) {
	b.values = append(b.values, v)
	if t := b.waits; t != nil && t.turn == b.turn {
		s.wake(t, s.now)
	}
}

// take returns the next value. It waits for at most limit, or without a limit if limit is zero.
func (b *box[T]) take(t *task, limit time.Duration) (v T, ok bool) {
	if len(b.values) == 0 {
		b.waits, b.turn = t, t.turn
		if limit > 0 {
			t.sim.wake(t, t.sim.now+limit)
		}
		t.pass()
		b.waits = nil
	}
	if len(b.values) == 0 {
		return v, false
	}

	v = b.values[0]
	b.values = b.values[1:]
	return v, true
}

// violation describes how a schedule has broken a promise.
type violation struct {
	seed uint64
	rule string
	what string
	at   time.Duration
}

func (v *violation) String() string {
	return fmt.Sprintf("%s: %s, %v into the schedule with seed %d", v.rule, v.what, v.at.Round(time.Millisecond), v.seed)
}

// brokenf records that the schedule has broken a promise, and ends the schedule.
func (s *sim) brokenf(rule, format string, args ...any) {
	if s.found == nil {
		s.found = &violation{seed: s.seed, rule: rule, what: fmt.Sprintf(format, args...), at: s.now}
		s.tracef("BROKEN %s: %s", rule, s.found.what)
	}
}

func (s *sim) tracef(format string, args ...any) {
	if s.trace != nil {
		s.trace(fmt.Sprintf("%9.3f  ", s.now.Seconds()) + fmt.Sprintf(format, args...))
	}
}

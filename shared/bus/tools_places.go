package bus

import (
	"slices"
	"sync"
)

// toolPlaces shares a worker's slots among the owners of calls.
//
// A slot that gets free goes to the waiting owner with the fewest calls in hand, the one who has waited longest among
// equals. Calls are never taken back, so an owner who came first may have more than the others until calls of its own
// have ended; from then on, while others wait, nobody has more than an equal share.
//
// An eighth of the slots, at least one where there are two or more, no owner gets who has all others: a newcomer need not
// wait for the end of somebody's long calls, unless yet others came before. So two slots are never one owner's; who is
// alone on a worker with two uses one.
//
// The queue is divided among the owners who wait, and among two if there is but one. Who came when there were fewer may
// have more waiting than that, and adds none; so the queue may get longer for those who came later, up to twice as long.
type toolPlaces struct {
	slots, queue, limit int
	observe             func(running, waiting int) // under the lock, so that the last word is the latest

	mu      sync.Mutex
	closed  bool
	idle    chan struct{} // closed once p is, and the last turn was given back
	running int
	held    map[string]int // calls in hand, by owner
	waiting []*toolTurn    // in the order of their coming
}

// toolTurn is a call's place: begin is closed when it may begin.
type toolTurn struct {
	owner string
	begin chan struct{}
	begun bool // under the places' lock
}

func newToolPlaces(cfg ToolServing) *toolPlaces {
	slots := max(cfg.Slots, 1)
	p := &toolPlaces{
		slots: slots, queue: max(cfg.Queue, 0), limit: slots, observe: cfg.Observe, held: map[string]int{}, idle: make(chan struct{}),
	}
	if slots > 1 && cfg.Owner != nil {
		p.limit = slots - max(slots/8, 1)
	}
	if p.observe == nil {
		p.observe = func(int, int) {}
	}
	p.tell()
	return p
}

// ask gives a turn to a call, at once or in the queue; nil when there is no place for it.
func (p *toolPlaces) ask(owner string) *toolTurn {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	turn := &toolTurn{owner: owner, begin: make(chan struct{})}
	switch {
	case p.closed:
		return nil
	case p.running < p.slots && p.held[owner] < p.limit: // nobody waits who could have it: see next
		p.begin(turn)
	case p.queues(owner):
		p.waiting = append(p.waiting, turn)
	default:
		return nil
	}
	return turn
}

// leave gives a turn back, whether it had begun or not.
func (p *toolPlaces) leave(turn *toolTurn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tellIdle()
	defer p.tell()
	if !turn.begun {
		p.waiting = slices.DeleteFunc(p.waiting, func(t *toolTurn) bool { return t == turn })
		return
	}
	p.running--
	if p.held[turn.owner]--; p.held[turn.owner] == 0 {
		delete(p.held, turn.owner)
	}
	for p.running < p.slots {
		next := p.next()
		if next < 0 {
			return
		}
		turn := p.waiting[next]
		p.waiting = slices.Delete(p.waiting, next, next+1)
		p.begin(turn)
	}
}

// close gives no more turns; those that wait keep theirs. The channel is closed once all are given back.
func (p *toolPlaces) close() (idle <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.tellIdle()
	}
	return p.idle
}

// tell says how many calls there are now; it is called under p's lock.
func (p *toolPlaces) tell() { p.observe(p.running, len(p.waiting)) }

// queues reports whether one more call of an owner may wait.
func (p *toolPlaces) queues(owner string) bool {
	waiting := map[string]int{owner: 0}
	for _, turn := range p.waiting {
		waiting[turn.owner]++
	}
	owners := max(len(waiting), 2)
	return len(p.waiting) < 2*p.queue && waiting[owner] < max((p.queue+owners-1)/owners, 1)
}

// tellIdle is called under p's lock, as the following are. No turn begins or waits after the last one was given back.
func (p *toolPlaces) tellIdle() {
	if p.closed && p.running == 0 && len(p.waiting) == 0 {
		close(p.idle)
	}
}

func (p *toolPlaces) begin(turn *toolTurn) {
	p.running++
	p.held[turn.owner]++
	turn.begun = true
	close(turn.begin)
}

// next finds the waiting call that a free slot goes to, -1 when none may have it.
func (p *toolPlaces) next() int {
	found := -1
	for n, turn := range p.waiting {
		if held := p.held[turn.owner]; held < p.limit && (found < 0 || held < p.held[p.waiting[found].owner]) {
			found = n
		}
	}
	return found
}

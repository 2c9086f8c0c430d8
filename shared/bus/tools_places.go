package bus

import (
	"slices"
	"sync"
)

// toolPlaces divides a worker's slots among the owners of calls.
//
// A free slot goes to the waiting owner with the fewest running calls; among equals, to the one
// who has waited longest. Calls are never preempted, so an early owner may have more than the
// others until some of its calls have finished. From then on, while others wait, no owner has
// more than an equal share.
//
// One eighth of the slots, and at least one if there are two or more, is reserved: no owner may
// occupy the others and these too. A new owner therefore does not have to wait for another
// owner's long calls, unless further owners came before. As a consequence, a single owner on a
// worker with two slots uses only one.
//
// The queue is divided among the waiting owners, but at least by two. An owner that came when
// there were fewer may have more calls waiting than its share, and can add none. So the queue
// may grow for later owners, up to twice its length.
type toolPlaces struct {
	slots, queue, limit int
	observe             func(running, waiting int) // called under mu, so that the last call has the latest numbers

	mu      sync.Mutex
	closed  bool
	idle    chan struct{} // closed after close, when the last turn was returned
	running int
	held    map[string]int // running calls by owner
	waiting []*toolTurn    // in order of arrival
}

// toolTurn is a call's position in the queue. begin is closed when the call may start.
type toolTurn struct {
	owner string
	begin chan struct{}
	begun bool // guarded by toolPlaces.mu
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

// ask returns a turn for a call, which starts immediately or waits. It returns nil if
// there is no room.
func (p *toolPlaces) ask(owner string) *toolTurn {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	turn := &toolTurn{owner: owner, begin: make(chan struct{})}
	switch {
	case p.closed:
		return nil
	case p.running < p.slots && p.held[owner] < p.limit: // no waiting call may use the slot: see next
		p.begin(turn)
	case p.queues(owner):
		p.waiting = append(p.waiting, turn)
	default:
		return nil
	}
	return turn
}

// leave returns a turn, whether or not its call has started.
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

// close stops giving turns; waiting calls keep theirs. The channel is closed when all
// turns are returned.
func (p *toolPlaces) close() (idle <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.tellIdle()
	}
	return p.idle
}

// tell reports the current numbers of calls. The caller must hold p.mu.
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

// tellIdle closes idle if no turn is left. The caller of this and of the following functions
// must hold p.mu. No turn starts or waits after the last one was returned.
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

// next returns the index of the waiting call that gets a free slot, or -1 if there is none.
func (p *toolPlaces) next() int {
	found := -1
	for n, turn := range p.waiting {
		if held := p.held[turn.owner]; held < p.limit && (found < 0 || held < p.held[p.waiting[found].owner]) {
			found = n
		}
	}
	return found
}

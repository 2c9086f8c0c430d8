package bus

import (
	"slices"
	"sync"
)

// slotPool divides a worker's slots among the owners of calls.
//
// A free slot goes to the waiting owner with the fewest running calls; among equals, to the owner
// who has waited longest. Calls are never preempted, so an early owner may have more slots than the
// others until some of its calls have finished. From then on, while others wait, no owner has more
// than an equal share.
//
// One eighth of the slots is reserved, at least one slot if there are two or more. An owner may use
// at most as many slots as are not reserved. A new owner therefore does not have to wait for
// another owner's long calls, unless other new owners arrived earlier. As a consequence, a single
// owner on a worker with two slots uses only one slot.
//
// The queue is divided equally among the waiting owners, and always among at least two. An owner
// that arrived when there were fewer owners may have more waiting calls than its share, but cannot
// add calls. For later owners, the queue may therefore grow to twice its configured length.
type slotPool struct {
	slots, queue, limit int
	observe             func(running, waiting int) // called while mu is held, so that the order of the calls is the order of the changes

	mu      sync.Mutex
	closed  bool
	idle    chan struct{} // closed when the pool is closed and all turns have been released
	running int
	inUse   map[string]int // running calls by owner
	waiting []*toolTurn    // in order of arrival
}

// toolTurn is a call's position in the queue. The channel begin is closed when the call may start.
type toolTurn struct {
	owner string
	begin chan struct{}
	begun bool // guarded by slotPool.mu
}

// newSlotPool returns a pool of at least one slot. An owner may take all slots except the reserved
// eighth.
func newSlotPool(cfg ToolOptions) *slotPool {
	slots := max(cfg.Slots, 1)
	p := &slotPool{
		slots: slots, queue: max(cfg.Queue, 0), limit: slots, observe: cfg.Observe, inUse: map[string]int{}, idle: make(chan struct{}),
	}

	// Slots are reserved for new owners. A pool that does not distinguish owners reserves none, and
	// a single slot cannot be divided.
	if slots > 1 && cfg.Owner != nil {
		p.limit = slots - max(slots/8, 1)
	}
	if p.observe == nil {
		p.observe = func(int, int) {}
	}
	p.reportCounts()
	return p
}

// acquire returns the turn of a call. The call starts immediately or waits in the queue until the
// turn's channel begin is closed. acquire returns nil if the queue has no room for the call or the
// pool is closed. The caller must release the turn.
func (p *slotPool) acquire(owner string) *toolTurn {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.reportCounts()
	turn := &toolTurn{owner: owner, begin: make(chan struct{})}
	switch {
	case p.closed:
		return nil
	case p.running < p.slots && p.inUse[owner] < p.limit: // no waiting call may use this slot: see the method next
		p.begin(turn)
	case p.mayQueue(owner):
		p.waiting = append(p.waiting, turn)
	default:
		return nil
	}

	return turn
}

// release returns a turn, whether or not its call has started.
func (p *slotPool) release(turn *toolTurn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.closeIfIdle()
	defer p.reportCounts()

	// A call that ended before it got a slot frees no slot.
	if !turn.begun {
		p.waiting = slices.DeleteFunc(p.waiting, func(t *toolTurn) bool { return t == turn })
		return
	}

	p.running--
	if p.inUse[turn.owner]--; p.inUse[turn.owner] == 0 {
		delete(p.inUse, turn.owner)
	}

	// One released slot may let several calls start: other slots may be free that the waiting
	// owners could not use before.
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

// close stops assigning turns; calls that already wait keep their turns. It returns a channel that
// is closed when all turns have been released.
func (p *slotPool) close() (idle <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.closeIfIdle()
	}
	return p.idle
}

// reportCounts reports the current numbers of calls. The caller must hold p.mu.
func (p *slotPool) reportCounts() { p.observe(p.running, len(p.waiting)) }

// mayQueue reports whether one more call of an owner may wait.
func (p *slotPool) mayQueue(owner string) bool {
	waiting := map[string]int{owner: 0}
	for _, turn := range p.waiting {
		waiting[turn.owner]++
	}

	// Each waiting owner, including the given one, gets an equal part of the queue, rounded up.
	owners := max(len(waiting), 2)
	return len(p.waiting) < 2*p.queue && waiting[owner] < max((p.queue+owners-1)/owners, 1)
}

// closeIfIdle closes the channel idle if the pool is closed and no call runs or waits. Callers of
// closeIfIdle, begin and next must hold p.mu.
func (p *slotPool) closeIfIdle() {
	if p.closed && p.running == 0 && len(p.waiting) == 0 {
		close(p.idle)
	}
}

// begin gives a turn a slot.
func (p *slotPool) begin(turn *toolTurn) {
	p.running++
	p.inUse[turn.owner]++
	turn.begun = true
	close(turn.begin)
}

// next returns the index of the waiting call that gets a free slot, or -1 if there is none.
func (p *slotPool) next() int {
	// The list waiting is in the order of arrival. Among owners with equally many running calls,
	// the one that arrived first gets the slot.
	found := -1
	for n, turn := range p.waiting {
		if inUse := p.inUse[turn.owner]; inUse < p.limit && (found < 0 || inUse < p.inUse[p.waiting[found].owner]) {
			found = n
		}
	}
	return found
}

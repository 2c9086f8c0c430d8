package bus

import (
	"slices"
	"sync"
)

// toolPlaces shares a worker's slots among the owners of calls. A slot that gets free goes to the waiting owner with the
// fewest calls in hand, the one who has waited longest among equals: so while others wait, nobody keeps more than an
// equal share. An eighth of the slots, but for fewer than four, no owner gets who has all others, so that a newcomer need
// not wait for the end of somebody's long calls; and nobody fills more than half of the queue.
type toolPlaces struct {
	slots, queue, most int

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

func newToolPlaces(slots, queue int) *toolPlaces {
	slots, queue = max(slots, 1), max(queue, 0)
	most := slots
	if slots >= 4 {
		most = slots - max(slots/8, 1)
	}
	return &toolPlaces{slots: slots, queue: queue, most: most, held: map[string]int{}, idle: make(chan struct{})}
}

// ask gives a turn to a call, at once or in the queue; nil when there is no place for it.
func (p *toolPlaces) ask(owner string) *toolTurn {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn := &toolTurn{owner: owner, begin: make(chan struct{})}
	switch {
	case p.closed:
		return nil
	case p.running < p.slots && p.held[owner] < p.most: // nobody waits who could have it: see next
		p.begin(turn)
	case len(p.waiting) < p.queue && p.waitingOf(owner) < (p.queue+1)/2:
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
		if held := p.held[turn.owner]; held < p.most && (found < 0 || held < p.held[p.waiting[found].owner]) {
			found = n
		}
	}
	return found
}

func (p *toolPlaces) waitingOf(owner string) (n int) {
	for _, turn := range p.waiting {
		if turn.owner == owner {
			n++
		}
	}
	return n
}

package httpx

import (
	"context"
	"slices"
	"sync"
	"time"

	"parley/shared/apierr"
)

// makingWait is how long a large answer waits for its turn.
const makingWait = 10 * time.Second

// makingMost is how many large answers of an organization may wait for their turns.
const makingMost = AnswersPerOrganization / PageBytes

// making is the queue of large answers that are read from the database and rendered: one at a time, for that keeps a core busy.
// Organizations take turns. However many answers one of them asks for, another waits for one of them.
type making struct {
	mu      sync.Mutex
	busy    bool
	waiting []*makingTurn     // in the order in which they came
	served  map[string]uint64 // when an organization had its last turn, while there is a queue
	turns   uint64
}

// makingTurn is a large answer that waits.
type makingTurn struct {
	of    string // whose share it counts against
	comes chan struct{}
}

// wait returns when the answer may be made. The caller calls made at the end of its turn.
func (m *making) wait(ctx context.Context, of string) (made func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, makingWait)
	defer cancel()
	turn := &makingTurn{of: of, comes: make(chan struct{})}
	made = sync.OnceFunc(m.next)
	m.mu.Lock()
	own := 0
	for _, other := range m.waiting {
		if other.of == of {
			own++
		}
	}
	if own >= makingMost {
		m.mu.Unlock()
		return nil, RateLimited(SeatWait, "this organization is reading too many large answers at once")
	}
	m.waiting = append(m.waiting, turn)
	idle := !m.busy
	m.mu.Unlock()
	if idle {
		m.start()
	}

	select {
	case <-turn.comes:
		return made, nil
	case <-ctx.Done():
	}
	if !m.giveUp(turn) {
		made() // its turn has just come
	}
	busy := apierr.New(apierr.Overloaded, "too many large answers are being read at once")
	busy.RetryAfter = SeatWait
	return nil, busy
}

// giveUp takes an answer out of the queue. It returns false if its turn has come.
func (m *making) giveUp(turn *makingTurn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(m.waiting, turn)
	if at < 0 {
		return false
	}
	m.waiting = slices.Delete(m.waiting, at, at+1)
	return true
}

// next ends a turn.
func (m *making) next() {
	m.mu.Lock()
	m.busy = false
	m.mu.Unlock()
	m.start()
}

// start begins the turn of the organization that has waited longest since its last one.
func (m *making) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.busy:
		return
	case len(m.waiting) == 0:
		m.served = nil
		return
	case m.served == nil:
		m.served = map[string]uint64{}
	}
	first := 0
	for at, turn := range m.waiting {
		if m.served[turn.of] < m.served[m.waiting[first].of] {
			first = at
		}
	}
	turn := m.waiting[first]
	m.waiting = slices.Delete(m.waiting, first, first+1)
	m.turns++
	m.busy, m.served[turn.of] = true, m.turns
	close(turn.comes)
}

package httpx

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/shared/apierr"
)

// makingWait is how long a large answer waits for its turn.
const makingWait = 10 * time.Second

// makingMost is how many large answers of an organization may wait for their turns in a queue.
const makingMost = AnswersPerOrganization / PageBytes

// mediumAnswer is how many bytes an answer may have that does not wait for larger ones.
const mediumAnswer = 1 << 20

// The bytes of an organization's answers count for a while: forgiven is how many of them are forgotten in a second, maxMade how many
// count at most.
const (
	forgiven = 256 << 10
	maxMade  = 64 << 20
)

// making decides when large answers are read from the database and rendered, which keeps a core busy. Answers of up to mediumAnswer bytes
// and larger ones have a queue each, and one answer of each queue is made at a time. In a queue, the answer of the organization that has
// had the fewest bytes made lately comes first. Many organizations that read large answers all the time thus delay another one's by the
// rest of the answer in progress.
type making struct {
	mu            sync.Mutex
	medium, large makingQueue
	made          map[string]madeBytes // by organization; those of none may be missing
}

type makingQueue struct {
	busy    bool
	waiting []*makingTurn // in the order in which they came
}

// madeBytes is how many bytes of an organization's answers were made lately.
type madeBytes struct {
	bytes float64
	at    time.Time
}

func (b madeBytes) now() float64 { return max(b.bytes-time.Since(b.at).Seconds()*forgiven, 0) }

// makingTurn is a large answer that waits.
type makingTurn struct {
	of    string // whose share it counts against
	bytes int
	comes chan struct{}
}

func (m *making) queue(bytes int) *makingQueue {
	if bytes <= mediumAnswer {
		return &m.medium
	}
	return &m.large
}

// wait returns when an answer of so many bytes may be made. The caller calls made at the end of its turn.
func (m *making) wait(ctx context.Context, of string, bytes int) (made func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, makingWait)
	defer cancel()
	turn, q := &makingTurn{of: of, bytes: bytes, comes: make(chan struct{})}, m.queue(bytes)
	made = sync.OnceFunc(func() { m.next(q) })
	m.mu.Lock()
	own := 0
	for _, other := range q.waiting {
		if other.of == of {
			own++
		}
	}
	if own >= makingMost {
		m.mu.Unlock()
		return nil, RateLimited(SeatWait, "this organization is reading too many large answers at once")
	}
	q.waiting = append(q.waiting, turn)
	m.start(q)
	m.mu.Unlock()

	select {
	case <-turn.comes:
		return made, nil
	case <-ctx.Done():
	}
	if !m.giveUp(q, turn) {
		made() // its turn has just come
	}
	busy := apierr.New(apierr.Overloaded, "too many large answers are being read at once")
	busy.RetryAfter = SeatWait
	return nil, busy
}

// giveUp takes an answer out of its queue. It returns false if its turn has come.
func (m *making) giveUp(q *makingQueue, turn *makingTurn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(q.waiting, turn)
	if at < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, at, at+1)
	return true
}

// next ends a turn.
func (m *making) next(q *makingQueue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q.busy = false
	m.start(q)
}

// start begins the turn of the organization that has had the fewest bytes made lately. It is called under the lock.
func (m *making) start(q *makingQueue) {
	if q.busy || len(q.waiting) == 0 {
		return
	}
	first, least := 0, m.made[q.waiting[0].of].now()
	for at, turn := range q.waiting {
		if bytes := m.made[turn.of].now(); bytes < least {
			first, least = at, bytes
		}
	}
	turn := q.waiting[first]
	q.waiting = slices.Delete(q.waiting, first, first+1)
	q.busy = true
	m.count(turn.of, least+float64(turn.bytes))
	close(turn.comes)
}

// count notes how many bytes an organization's answers have, and forgets organizations all of whose bytes are forgiven.
func (m *making) count(of string, bytes float64) {
	if m.made == nil {
		m.made = map[string]madeBytes{}
	}
	m.made[of] = madeBytes{min(bytes, maxMade), time.Now()}
	const sweepAbove = 256
	if len(m.made) > sweepAbove {
		maps.DeleteFunc(m.made, func(_ string, b madeBytes) bool { return b.now() == 0 })
	}
}

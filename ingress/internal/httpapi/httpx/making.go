package httpx

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/shared/apierr"
)

// makingWait is how long a large answer waits for its turn.
const makingWait = 10 * time.Second

// maxRest is the longest pause between two large answers.
const maxRest = time.Second

// maxWaiting is how many large answers of an organization may wait for their turns.
const maxWaiting = 4

// The bytes of an organization's answers count for a while: forgiven is how many of them are forgotten in a second, maxMade how many
// count at most.
const (
	forgiven = 256 << 10
	maxMade  = 64 << 20
)

// agedBytes is by how many bytes a second of waiting lowers the rank of an answer.
const agedBytes = maxMade / 8

// making decides when large answers are read from the database and rendered. That keeps a core busy here and one in PostgreSQL. So one
// answer is made at a time, and a pause as long as its making follows, in which small requests find a core free. The answer with the
// lowest rank is next: that of the organization which has had the fewest bytes made lately. Waiting lowers the rank, so that newcomers do
// not delay an answer without end. Of equal ranks the smallest answer is next.
type making struct {
	mu      sync.Mutex
	busy    bool // an answer is being made, or the pause after it is not over
	began   time.Time
	waiting []*makingTurn        // in the order in which they came
	made    map[string]madeBytes // by organization; those of none may be missing
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
	came  time.Time
	comes chan struct{}
}

// wait returns when an answer of so many bytes may be made. The caller calls made at the end of its turn.
func (m *making) wait(ctx context.Context, of string, bytes int) (made func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, makingWait)
	defer cancel()
	turn := &makingTurn{of: of, bytes: bytes, came: time.Now(), comes: make(chan struct{})}
	made = sync.OnceFunc(m.end)
	m.mu.Lock()
	own := 0
	for _, other := range m.waiting {
		if other.of == of {
			own++
		}
	}
	if own >= maxWaiting {
		m.mu.Unlock()
		return nil, RateLimited(SeatWait, "this organization is reading too many large answers simultaneously")
	}
	m.waiting = append(m.waiting, turn)
	m.start()
	m.mu.Unlock()

	select {
	case <-turn.comes:
		return made, nil
	case <-ctx.Done():
	}
	if !m.giveUp(turn) {
		made() // its turn has just come
	}
	busy := apierr.New(apierr.Overloaded, "too many large answers are being read simultaneously; try again shortly")
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

// end ends a turn. The next one begins after a pause.
func (m *making) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	time.AfterFunc(min(time.Since(m.began), maxRest), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.busy = false
		m.start()
	})
}

// start begins the next turn. It is called under the lock.
func (m *making) start() {
	if m.busy || len(m.waiting) == 0 {
		return
	}
	turn := slices.MinFunc(m.waiting, func(a, b *makingTurn) int {
		return cmp.Or(cmp.Compare(m.rank(a), m.rank(b)), cmp.Compare(a.bytes, b.bytes))
	})
	m.waiting = slices.DeleteFunc(m.waiting, func(other *makingTurn) bool { return other == turn })
	m.busy, m.began = true, time.Now()
	m.count(turn.of, m.made[turn.of].now()+float64(turn.bytes))
	close(turn.comes)
}

// rank is how many bytes the answer's organization has had made lately, less agedBytes for each second that the answer has waited.
func (m *making) rank(turn *makingTurn) float64 {
	return m.made[turn.of].now() - time.Since(turn.came).Seconds()*agedBytes
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

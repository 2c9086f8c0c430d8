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

// queueTimeout is the maximum time that a large response waits for its turn.
const queueTimeout = 10 * time.Second

// maxPause is the maximum pause between two turns.
const maxPause = time.Second

// maxQueued is the maximum number of large responses of one organization in the queue.
const maxQueued = 4

// The queue keeps the number of bytes that it has recently rendered for each organization. The
// number decreases by decayPerSecond each second and is at most maxRecentBytes.
const (
	decayPerSecond = 256 << 10
	maxRecentBytes = 64 << 20
)

// agingPerSecond is subtracted from a waiting response's rank each second.
const agingPerSecond = maxRecentBytes / 8

// answerQueue serializes the reading and rendering of large responses, which fully occupies one
// core of this process and one of PostgreSQL. Only one response is rendered at a time. Each
// rendering is followed by a pause of the same length, so that small requests find a free core.
//
// The response with the lowest rank is next: the response whose organization has recently had the
// fewest bytes rendered. The rank falls while a response waits, so newcomers cannot delay it
// forever. Among equal ranks, the smallest response is next.
type answerQueue struct {
	mu      sync.Mutex
	busy    bool // a response is being rendered, or the pause after it is not over
	began   time.Time
	waiting []*queuedAnswer        // in order of arrival
	made    map[string]recentBytes // by organization; an organization without recent bytes may be missing
}

// recentBytes is the number of bytes recently rendered for an organization, at a point in time.
type recentBytes struct {
	bytes float64
	at    time.Time
}

func (b recentBytes) now() float64 { return max(b.bytes-time.Since(b.at).Seconds()*decayPerSecond, 0) }

// queuedAnswer is a large response in the queue.
type queuedAnswer struct {
	owner    string // the organization or demo visitor for which the response is counted
	bytes    int
	queuedAt time.Time
	admitted chan struct{}
}

// wait blocks until a response of the given size may be rendered. The caller must call made after
// rendering the response. If queueTimeout passes, wait returns the error overloaded.
func (m *answerQueue) wait(ctx context.Context, owner string, bytes int) (made func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	turn := &queuedAnswer{owner: owner, bytes: bytes, queuedAt: time.Now(), admitted: make(chan struct{})}

	made = sync.OnceFunc(m.end)
	m.mu.Lock()
	own := 0
	for _, other := range m.waiting {
		if other.owner == owner {
			own++
		}
	}

	if own >= maxQueued {
		m.mu.Unlock()
		return nil, RateLimited(SlotRetryAfter, "this organization is reading too many large responses simultaneously")
	}

	m.waiting = append(m.waiting, turn)
	m.start()
	m.mu.Unlock()

	select {
	case <-turn.admitted:
		return made, nil
	case <-ctx.Done():
	}

	if !m.giveUp(turn) {
		made() // the turn began at the moment of the timeout
	}

	busy := apierr.New(apierr.Overloaded, "too many large responses are being read simultaneously; try again shortly")
	busy.RetryAfter = SlotRetryAfter
	return nil, busy
}

// giveUp removes a response from the queue. It returns false if the response's turn has already
// begun.
func (m *answerQueue) giveUp(turn *queuedAnswer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(m.waiting, turn)
	if at < 0 {
		return false
	}
	m.waiting = slices.Delete(m.waiting, at, at+1)
	return true
}

// end ends a turn. After a pause, the next turn begins.
func (m *answerQueue) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	time.AfterFunc(min(time.Since(m.began), maxPause), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.busy = false
		m.start()
	})
}

// start begins the next turn if none is in progress. m.mu must be locked.
func (m *answerQueue) start() {
	if m.busy || len(m.waiting) == 0 {
		return
	}
	turn := slices.MinFunc(m.waiting, func(a, b *queuedAnswer) int {
		return cmp.Or(cmp.Compare(m.rank(a), m.rank(b)), cmp.Compare(a.bytes, b.bytes))
	})
	m.waiting = slices.DeleteFunc(m.waiting, func(other *queuedAnswer) bool { return other == turn })
	m.busy, m.began = true, time.Now()

	// Count the bytes at the start of the turn, so that they affect the choice of the next
	// response.
	m.count(turn.owner, m.made[turn.owner].now()+float64(turn.bytes))
	close(turn.admitted)
}

// rank returns the recent bytes of the response's organization, minus agingPerSecond for each
// second that the response has waited.
func (m *answerQueue) rank(turn *queuedAnswer) float64 {
	return m.made[turn.owner].now() - time.Since(turn.queuedAt).Seconds()*agingPerSecond
}

// count sets the recent bytes of an organization. If the map is large, it removes the organizations
// whose bytes have decreased to zero.
func (m *answerQueue) count(owner string, bytes float64) {
	if m.made == nil {
		m.made = map[string]recentBytes{}
	}
	m.made[owner] = recentBytes{min(bytes, maxRecentBytes), time.Now()}
	const sweepAbove = 256
	if len(m.made) > sweepAbove {
		maps.DeleteFunc(m.made, func(_ string, b recentBytes) bool { return b.now() == 0 })
	}
}

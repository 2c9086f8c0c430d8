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

// maxPause is the maximum pause after a turn.
const maxPause = time.Second

// maxQueued is the maximum number of responses in the queue that belong to one organization.
const maxQueued = 4

// For each organization, the queue keeps the number of bytes that were rendered recently. This
// number falls by decayPerSecond each second, and is at most maxRecentBytes.
const (
	decayPerSecond = 256 << 10
	maxRecentBytes = 64 << 20
)

// agingPerSecond is how much the rank of a waiting response falls each second.
const agingPerSecond = maxRecentBytes / 8

// answerQueue makes large responses take turns. Reading and rendering a large response fully
// occupies a core of PostgreSQL and a core of this process. Therefore only one response has its
// turn at a time. Each turn is followed by a pause of the same length, but of at most maxPause, in
// which small requests find free cores.
//
// The next turn goes to the response with the lowest rank. The rank of a response is the number of
// bytes recently rendered for its organization. The rank falls while the response waits, so that
// later responses cannot delay it forever. Among equal ranks, the smallest response is next.
type answerQueue struct {
	mu      sync.Mutex
	busy    bool // whether a response has its turn, or the pause after it is not over
	began   time.Time
	waiting []*queuedAnswer        // in order of arrival
	made    map[string]recentBytes // recently rendered bytes, by organization; no entry: 0
}

// recentBytes is the number of bytes recently rendered for an organization, as of the time in the
// field at.
type recentBytes struct {
	bytes float64
	at    time.Time
}

func (b recentBytes) now() float64 { return max(b.bytes-time.Since(b.at).Seconds()*decayPerSecond, 0) }

// queuedAnswer is a large response in the queue.
type queuedAnswer struct {
	owner string // organization or demo visitor to which the response belongs
	// Estimated size.
	bytes    int
	queuedAt time.Time
	// Closed when the turn begins.
	admitted chan struct{}
}

// wait blocks until it is the turn of a response of the given size. The caller must call the
// function made when the response is rendered. If the turn does not come within queueTimeout, wait
// returns the error overloaded. If the organization has too many responses in the queue, it returns
// rate_limited.
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
		made() // the turn began at the moment of the timeout, so end it
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

// end ends the current turn. After a pause, the next turn begins.
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

// start begins the next turn if there is neither a turn nor a pause. The caller must hold m.mu.
func (m *answerQueue) start() {
	if m.busy || len(m.waiting) == 0 {
		return
	}
	turn := slices.MinFunc(m.waiting, func(a, b *queuedAnswer) int {
		return cmp.Or(cmp.Compare(m.rank(a), m.rank(b)), cmp.Compare(a.bytes, b.bytes))
	})
	m.waiting = slices.DeleteFunc(m.waiting, func(other *queuedAnswer) bool { return other == turn })
	m.busy, m.began = true, time.Now()

	// Count the bytes now and not after the turn, so that they affect the choice of the next
	// response.
	m.count(turn.owner, m.made[turn.owner].now()+float64(turn.bytes))
	close(turn.admitted)
}

// rank returns the recent bytes of the response's organization, minus agingPerSecond for each
// second that the response has waited.
func (m *answerQueue) rank(turn *queuedAnswer) float64 {
	return m.made[turn.owner].now() - time.Since(turn.queuedAt).Seconds()*agingPerSecond
}

// count sets the number of bytes recently rendered for an organization. If the map is large, count
// removes the organizations whose number has fallen to 0.
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

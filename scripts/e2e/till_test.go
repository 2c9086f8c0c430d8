package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// till is an HTTP server that agents' tools call. It counts each request as an effect. The "point"
// in a request's body selects whether the till holds the request before it counts the effect, or
// before it responds.
type till struct {
	url  string
	host string // for OUTBOUND_ALLOW

	mu   sync.Mutex
	hits []hit
	held map[string]int // number of requests currently held, by point
	open chan struct{}  // closed when requests are no longer held
}

// hit is one effect.
type hit struct {
	key, body string
	at        time.Time
}

func newTill(t *testing.T) *till {
	t.Helper()
	l := &till{held: map[string]int{}, open: make(chan struct{})}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	t.Cleanup(l.release)
	l.url, l.host = server.URL, strings.TrimPrefix(server.URL, "http://")
	return l
}

// release lets all held requests continue. The till holds no later requests.
func (l *till) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
	default:
		close(l.open)
	}
}

// keep holds a request until release is called, if the request's body contains the given point as a
// JSON string.
func (l *till) keep(body, point string) {
	if !strings.Contains(body, `"`+point+`"`) {
		return
	}
	l.mu.Lock()
	l.held[point]++
	l.mu.Unlock()
	<-l.open
	l.mu.Lock()
	l.held[point]--
	l.mu.Unlock()
}

// ServeHTTP counts a request as an effect and confirms it. It holds the request if the body
// contains a point.
func (l *till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // an incomplete request has no effect
	}
	body := string(raw)
	l.keep(body, "arrived")
	l.mu.Lock()
	l.hits = append(l.hits, hit{key: r.Header.Get("Idempotency-Key"), body: body, at: time.Now()})
	l.mu.Unlock()
	l.keep(body, "counted")
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"paid":true}`)
}

// waiting returns the number of requests held at a point.
func (l *till) waiting(point string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[point]
}

// of returns the effects whose request body contains a text, and the number of their distinct
// idempotency keys.
func (l *till) of(text string) (effects []hit, keys int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]bool{}
	for _, h := range l.hits {
		if strings.Contains(h.body, text) {
			effects = append(effects, h)
			seen[h.key] = true
		}
	}
	return effects, len(seen)
}

// billFor returns the bill that a request pays. The argument body is the request's body.
func billFor(body string) string {
	var asked struct {
		Bill string `json:"bill"`
	}
	if json.Unmarshal([]byte(body), &asked) != nil {
		return ""
	}
	return asked.Bill
}

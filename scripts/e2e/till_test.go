package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// till is an HTTP server that agents' tools call. It counts each request as an effect.
type till struct {
	url  string
	host string // for OUTBOUND_ALLOW

	mu   sync.Mutex
	hits []hit
}

// hit is one effect.
type hit struct {
	key, body string
	at        time.Time
}

func newTill(t *testing.T) *till {
	t.Helper()
	l := &till{}
	server := site(t, l)
	l.url, l.host = server.URL, strings.TrimPrefix(server.URL, "http://")
	return l
}

// ServeHTTP counts a request as an effect and confirms it.
func (l *till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // an incomplete request has no effect
	}
	l.mu.Lock()
	l.hits = append(l.hits, hit{key: r.Header.Get("Idempotency-Key"), body: string(raw), at: time.Now()})
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"paid":true}`)
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

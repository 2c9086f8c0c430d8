package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// effectPath is the ledger's endpoint.
const effectPath = "/effects"

// Booking is one effect in the ledger, executed once per idempotency key.
type Booking struct {
	// Trigger is the number in the trigger's message.
	Trigger int
	// Key is the Idempotency-Key of the request.
	Key string
	// Times is the number of requests with this key. The effect was executed once.
	Times int
}

// ledger receives effects. It honours idempotency keys, as receivers of `sideEffect: idempotent` must: a request with a known
// key is confirmed without a further effect. It runs in this process, which is never killed.
type ledger struct {
	address string // host:port
	server  *http.Server
	closed  chan struct{}

	mu      sync.Mutex
	open    int // requests in progress
	asked   int
	forgets bool // sabotage: every forgetEvery-th booking is confirmed and discarded
	booked  map[entry]int
}

// entry identifies an effect. One key used for two triggers counts as two effects.
type entry struct {
	trigger int
	key     string
}

// forgetEvery is the interval between bookings that a sabotaged ledger discards.
const forgetEvery = 20

// startLedger listens on a free loopback port.
func startLedger(ctx context.Context, forgets bool) (*ledger, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the ledger: %w", err)
	}
	l := &ledger{address: listener.Addr().String(), forgets: forgets, booked: map[entry]int{}, closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("POST "+effectPath, l)
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = l.server.Serve(listener) }() // close ends it
	return l, nil
}

// close stops the ledger after all clients have stopped.
func (l *ledger) close() {
	close(l.closed)
	_ = l.server.Close()
}

// wait pauses for d. It continues even if the requester has died, because the request has already arrived.
func (l *ledger) wait(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-l.closed:
	}
}

// ServeHTTP books an effect with pauses before and after. A worker that is killed in between cannot
// determine whether the effect was booked.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.open++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.open--
		l.mu.Unlock()
	}()

	var body struct {
		Trigger int `json:"trigger"`
	}

	raw, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err != nil || json.Unmarshal(raw, &body) != nil || body.Trigger < 0 {
		w.WriteHeader(http.StatusBadRequest) // an incomplete request has no effect
		return
	}

	pause := pauses[body.Trigger%len(pauses)]
	l.wait(pause.before)
	l.book(entry{body.Trigger, r.Header.Get("Idempotency-Key")})
	l.wait(pause.after)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"booked":true}`) // the requester may be dead
}

// pauses are the ledger's delays before and after a booking, selected by the trigger's number.
var pauses = []struct{ before, after time.Duration }{
	{0, 40 * time.Millisecond},
	{40 * time.Millisecond, 0},
	{20 * time.Millisecond, 60 * time.Millisecond},
	{5 * time.Millisecond, 5 * time.Millisecond},
	{0, 120 * time.Millisecond},
	{80 * time.Millisecond, 40 * time.Millisecond},
	{0, 0},
}

func (l *ledger) book(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.forgets && l.asked%forgetEvery == 0 {
		return
	}
	if e.key == "" { // without a key, each request is a separate effect
		e.key = fmt.Sprintf("(none, request %d)", l.asked)
	}
	l.booked[e]++
}

// underWay returns the number of requests in progress.
func (l *ledger) underWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// bookings returns all effects in no particular order.
func (l *ledger) bookings() []Booking {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Booking, 0, len(l.booked))
	for e, n := range l.booked {
		all = append(all, Booking{Trigger: e.trigger, Key: e.key, Times: n})
	}
	return all
}

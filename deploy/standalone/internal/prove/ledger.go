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

// effectPath is the path of the ledger's HTTP endpoint.
const effectPath = "/effects"

// Booking is one effect in the ledger. Requests with the same trigger and idempotency key have one
// effect.
type Booking struct {
	// Trigger is the number in the trigger's message.
	Trigger int
	// Key is the Idempotency-Key of the request.
	Key string
	// Times is the number of requests with this key. Only the first of them had an effect.
	Times int
}

// ledger is an HTTP server that receives effects. It honours idempotency keys, as the receiver of a
// tool with `sideEffect: idempotent` must: it confirms a request with a known key without another
// effect. It runs in this process, which is never killed.
type ledger struct {
	address string // host:port
	server  *http.Server
	closed  chan struct{}

	mu sync.Mutex
	// mu guards the following fields.
	open    int // number of requests in progress
	asked   int
	forgets bool // sabotage: confirm every 20th request without booking it
	booked  map[entry]int
}

// entry identifies an effect. A key that is used for two triggers has two effects.
type entry struct {
	trigger int
	key     string
}

// A sabotaged ledger discards every forgetEvery-th request.
const forgetEvery = 20

// startLedger starts a ledger on a free loopback port.
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
	go func() { _ = l.server.Serve(listener) }() // close ends this call
	return l, nil
}

// close stops the ledger and interrupts its pauses. The caller must stop all clients of the ledger
// first.
func (l *ledger) close() {
	close(l.closed)
	_ = l.server.Close()
}

// wait pauses for the duration d. It ends early when the ledger closes, but not when the client
// dies: the ledger books each request that it has received.
func (l *ledger) wait(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-l.closed:
	}
}

// ServeHTTP books an effect, with a pause before and after the booking. A worker that is killed
// between the pauses does not learn whether the effect was booked.
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
	_, _ = io.WriteString(w, `{"booked":true}`) // an error means that the client has died
}

// pauses contains pairs of delays before and after a booking. The number of the trigger selects the
// pair.
var pauses = []struct{ before, after time.Duration }{
	{0, 40 * time.Millisecond},
	{40 * time.Millisecond, 0},
	{20 * time.Millisecond, 60 * time.Millisecond},
	{5 * time.Millisecond, 5 * time.Millisecond},
	{0, 120 * time.Millisecond},
	{80 * time.Millisecond, 40 * time.Millisecond},
	{0, 0},
}

// book counts a request, and records the effect unless the ledger is sabotaged. A request with a
// known key only increases the count of this key.
func (l *ledger) book(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.forgets && l.asked%forgetEvery == 0 {
		return
	}
	if e.key == "" { // without a key, each request has its own effect
		e.key = fmt.Sprintf("(none, request %d)", l.asked)
	}
	l.booked[e]++
}

// underWay returns the number of requests that the ledger is handling.
func (l *ledger) underWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// bookings returns all effects, in no particular order. If a request had no idempotency key, the
// Key of its booking names the request instead.
func (l *ledger) bookings() []Booking {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Booking, 0, len(l.booked))
	for e, n := range l.booked {
		all = append(all, Booking{Trigger: e.trigger, Key: e.key, Times: n})
	}
	return all
}

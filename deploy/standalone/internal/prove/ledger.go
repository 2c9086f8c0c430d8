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

// effectPath is where effects are booked.
const effectPath = "/effects"

// Booking is one effect: what a receiver that honours keys has carried out once.
type Booking struct {
	// Trigger is the number that the trigger's message named.
	Trigger int
	// Key is the Idempotency-Key that came with it.
	Key string
	// Times is how often it was asked for; it was carried out once.
	Times int
}

// ledger is the receiver of effects. It honours keys, as receivers of `sideEffect: idempotent` must: a request with a key
// that it knows is answered and has no effect. It lives in this process, which nothing strikes.
type ledger struct {
	address string // host:port
	server  *http.Server
	closed  chan struct{}

	mu      sync.Mutex
	open    int // requests that are being answered now
	asked   int
	forgets bool // sabotage: now and then a booking is confirmed and not kept
	booked  map[entry]int
}

// entry tells effects apart: one key used for two triggers is two effects.
type entry struct {
	trigger int
	key     string
}

// forgotten is every which booking a sabotaged ledger forgets.
const forgotten = 20

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
	go func() { _ = l.server.Serve(listener) }() // ends with close
	return l, nil
}

// close ends the ledger, when nobody is left who would ask.
func (l *ledger) close() {
	close(l.closed)
	_ = l.server.Close()
}

// wait lets time pass, whether or not the one who asked still lives: what it has sent is on its way.
func (l *ledger) wait(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-l.closed:
	}
}

// ServeHTTP books an effect, then takes its time with the answer: a worker that is killed meanwhile cannot know
// whether it happened.
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
		w.WriteHeader(http.StatusBadRequest) // half a request has no effect
		return
	}
	pause := pauses[body.Trigger%len(pauses)]
	l.wait(pause.before)
	l.book(entry{body.Trigger, r.Header.Get("Idempotency-Key")})
	l.wait(pause.after)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"booked":true}`) // whoever asked may be dead
}

// pauses are how long the ledger takes before and after it has booked, by the trigger's number.
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
	if l.forgets && l.asked%forgotten == 0 {
		return
	}
	if e.key == "" { // nothing says that it is the same one
		e.key = fmt.Sprintf("(none, request %d)", l.asked)
	}
	l.booked[e]++
}

// underWay is how many bookings are being asked for now.
func (l *ledger) underWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// bookings gives all effects, in no order.
func (l *ledger) bookings() []Booking {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Booking, 0, len(l.booked))
	for e, n := range l.booked {
		all = append(all, Booking{Trigger: e.trigger, Key: e.key, Times: n})
	}
	return all
}

package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/scripts/bench/internal/latency"
)

// KeyMark is what a request's body, or one of its headers, holds where each request's own key goes. A key is as long.
const KeyMark = "################################"

// Message is what agents are asked.
const Message = "Send the morning report to everyone who asked for it."

// Body is a run-automation request to a target, with its own key.
func Body(target string) string {
	return `{"target":"` + target + `","input":{"message":"` + Message + `"},"idempotencyKey":"` + KeyMark + `"}`
}

// nonceLength is that of a nonce.
const nonceLength = 10

// Key is the nth of the keys that requests share.
func Key(nonce string, n int64) string {
	key := []byte(prefix(nonce, 0) + KeyMark)[:len(KeyMark)]
	counter(key[len(prefix(nonce, 0)):], n)
	return string(key)
}

// prefix begins the keys of a client.
func prefix(nonce string, client int) string { return nonce + fmt.Sprintf("-%05d-", client) }

// patience is how long an answer may take once the time is over.
const patience = 60 * time.Second

// Spec says what to send, and for how long. It travels as JSON.
type Spec struct {
	Address string            `json:"address"` // host:port
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`   // with KeyMark in it, unless a header has it
	Expect  string            `json:"expect"` // what a right answer's body holds
	Status  int               `json:"status"` // of a right answer; 0: 200
	Nonce   string            `json:"nonce"`  // 10 characters that begin each key; another run has others
	Keys    int64             `json:"keys"`   // 0: each request has a key of its own; else it has any of Key(Nonce, 1) to Key(Nonce, Keys)

	Clients  int           `json:"clients"` // connections
	WarmUp   time.Duration `json:"warmUp"`  // not measured
	Duration time.Duration `json:"duration"`
	Arrivals Arrivals      `json:"arrivals"`
}

// Result is what came of it.
type Result struct {
	Answered  int64             `json:"answered"` // right answers, those of the warm-up too
	Failed    map[string]int64  `json:"failed"`   // other answers, by what was wrong with them
	Elapsed   time.Duration     `json:"elapsed"`  // of the measured part; of arrivals until the last answer
	Latencies latency.Histogram `json:"latencies"`

	// Of arrivals, in the measured part.
	Offered  int64             `json:"offered"`  // were due
	InFlight int               `json:"inFlight"` // the most at a time
	Late     latency.Histogram `json:"late"`     // how long after they were due this client turned to them
}

// PerSecond is the measured throughput.
func (r *Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Latencies.Count()) / r.Elapsed.Seconds()
}

// Failures describes the answers that were not right, or is nil.
func (r *Result) Failures() error {
	var errs []error
	for reason, n := range r.Failed {
		errs = append(errs, fmt.Errorf("%d requests: %s", n, reason))
	}
	return errors.Join(errs...)
}

// add adds what connections have seen.
func (r *Result) add(conns []*connection) {
	for _, c := range conns {
		r.Answered += c.answered
		for reason, n := range c.failed {
			r.Failed[reason] += n
		}
		r.Latencies.Merge(&c.latencies)
	}
}

// request builds the bytes of a request and gives the place of the key in them.
func (s *Spec) request() (raw []byte, key int, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", s.Path, s.Address, len(s.Body))
	for name, value := range s.Headers {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	b.WriteString("\r\n" + s.Body)
	if key = strings.Index(b.String(), KeyMark); key < 0 {
		return nil, 0, errors.New("the request has no place for a key")
	}
	if len(s.Nonce) != nonceLength {
		return nil, 0, fmt.Errorf("a nonce has %d characters, not %d", nonceLength, len(s.Nonce))
	}
	return []byte(b.String()), key, nil
}

// Run sends requests over s.Clients connections until the time is over or ctx ends. A connection that
// breaks is an error: what remained would be another measurement.
func Run(ctx context.Context, s Spec) (*Result, error) {
	if s.Arrivals.Rate > 0 {
		return arrive(ctx, s)
	}
	conns, err := open(ctx, s)
	if err != nil {
		return nil, err
	}
	unhook := context.AfterFunc(ctx, func() { shut(conns) })
	defer unhook()
	defer shut(conns)

	start := time.Now().Add(s.WarmUp)
	end := start.Add(s.Duration)
	errs := make([]error, len(conns))
	var all sync.WaitGroup
	for i, c := range conns {
		all.Go(func() {
			if errs[i] = c.work(start, end); errs[i] != nil {
				shut(conns) // the others need not go on
			}
		})
	}
	all.Wait()
	result := &Result{Failed: map[string]int64{}, Elapsed: s.Duration}
	result.add(conns)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("measuring: %w", context.Cause(ctx))
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, net.ErrClosed) {
			return nil, err
		}
	}
	return result, nil
}

// open connects all clients before the first request is sent.
func open(ctx context.Context, s Spec) ([]*connection, error) {
	conns := make([]*connection, 0, s.Clients)
	for i := range s.Clients {
		c, err := connect(ctx, s, i)
		if err != nil {
			shut(conns)
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// connect connects one client.
func connect(ctx context.Context, s Spec, client int) (*connection, error) {
	raw, key, err := s.request()
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return nil, fmt.Errorf("connecting client %d: %w", client, err)
	}
	own := client
	if s.Keys > 0 {
		own = 0
	}
	c := newConnection(conn, raw, key, prefix(s.Nonce, own), s)
	c.walk = int64(client)
	return c, nil
}

func shut(conns []*connection) {
	for _, c := range conns {
		_ = c.conn.Close() // closing twice is no harm
	}
}

// counter writes n in decimal, right-aligned over zeros, into the end of dst.
func counter(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

func status(code int) string { return "status " + strconv.Itoa(code) }

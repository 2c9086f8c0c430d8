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

	Clients  int           `json:"clients"` // connections
	WarmUp   time.Duration `json:"warmUp"`  // not measured
	Duration time.Duration `json:"duration"`
}

// Result is what came of it.
type Result struct {
	Answered  int64             `json:"answered"` // right answers, those of the warm-up too
	Failed    map[string]int64  `json:"failed"`   // other answers, by what was wrong with them
	Elapsed   time.Duration     `json:"elapsed"`  // of the measured part
	Latencies latency.Histogram `json:"latencies"`
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
	if len(s.Nonce) != 10 {
		return nil, 0, fmt.Errorf("a nonce has 10 characters, not %d", len(s.Nonce))
	}
	return []byte(b.String()), key, nil
}

// Run sends requests over s.Clients connections until the time is over or ctx ends. A connection that
// breaks is an error: what remained would be another measurement.
func Run(ctx context.Context, s Spec) (*Result, error) {
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
	for _, c := range conns {
		result.Answered += c.answered
		for reason, n := range c.failed {
			result.Failed[reason] += n
		}
		result.Latencies.Merge(&c.latencies)
	}
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
	raw, key, err := s.request()
	if err != nil {
		return nil, err
	}
	conns := make([]*connection, 0, s.Clients)
	for i := range s.Clients {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address)
		if err != nil {
			shut(conns)
			return nil, fmt.Errorf("connecting client %d: %w", i, err)
		}
		conns = append(conns, newConnection(conn, raw, key, s.Nonce+fmt.Sprintf("-%05d-", i), s))
	}
	return conns, nil
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

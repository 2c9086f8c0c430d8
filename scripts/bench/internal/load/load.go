package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"parley/shared/lifecycle"
)

// KeyMark is the placeholder for a request's key, in the body or as a header's value. A key has the
// same length.
const KeyMark = "################################"

// Message is the input of each run.
const Message = "Send the morning report to everyone who asked for it."

// Body returns a run-automation request to a target, with KeyMark as its key.
func Body(target string) string {
	return `{"target":"` + target + `","input":{"message":"` + Message + `"},"idempotencyKey":"` + KeyMark + `"}`
}

// prefix returns the beginning of a client's keys.
func prefix(nonce string, client int) string { return nonce + fmt.Sprintf("-%05d-", client) }

// patience bounds the wait for responses after the end of the load.
const patience = 60 * time.Second

// Spec describes the requests of a load.
type Spec struct {
	Address string // host:port
	Path    string
	Headers map[string]string
	Body    string // contains KeyMark, unless a header does
	Expect  string // text in the body of a correct response
	Nonce   string // 10 characters that begin each key; different in each run of the load
	Keys    int64  // 0: each request has a separate key; otherwise any of Key(Nonce, 1) to Key(Nonce, Keys)
}

// Duration says how many clients send, and for how long.
type Duration struct {
	Clients  int
	WarmUp   time.Duration // not measured
	Measured time.Duration // if it is 0, each client sends one request
	Spread   time.Duration // time over which the clients begin
}

// Result is the outcome of Execute.
type Result struct {
	Answered  int64                   // correct responses, including those of the warm-up
	Elapsed   time.Duration           // of the measured part
	Latencies *hdrhistogram.Histogram // of the measured part, in nanoseconds
}

// maxLatency is the longest duration that a histogram records.
const maxLatency = 2 * time.Minute

// NewLatencies returns an empty histogram of durations in nanoseconds, exact to three digits.
func NewLatencies() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency.Nanoseconds(), 3) }

// Millis returns a quantile (0 to 100) of durations in milliseconds.
func Millis(h *hdrhistogram.Histogram, quantile float64) float64 {
	return time.Duration(h.ValueAtQuantile(quantile)).Seconds() * 1e3
}

// PerSecond returns the measured throughput.
func (r *Result) PerSecond() float64 {
	return float64(r.Latencies.TotalCount()) / max(r.Elapsed, 1).Seconds()
}

// Execute sends each client's requests over the client's own connection until the time has passed
// or ctx ends. A wrong response or a broken connection is an error, because the remaining requests
// would measure something else.
func Execute(ctx context.Context, s Spec, d Duration) (*Result, error) {
	connections := &fasthttp.HostClient{
		Addr: s.Address, MaxConns: d.Clients, MaxIdemponentCallAttempts: 1, ReadTimeout: patience,
	}
	defer connections.CloseIdleConnections()

	start := time.Now().Add(d.WarmUp)
	end := start.Add(d.Measured)
	clients := make([]*client, d.Clients)
	group, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		clients[i] = newClient(s, i)
		group.Go(func() error {
			if err := lifecycle.Sleep(ctx, d.Spread*time.Duration(i)/time.Duration(d.Clients)); err != nil {
				return fmt.Errorf("beginning: %w", err)
			}
			return clients[i].work(ctx, connections, start, end)
		})
	}

	if err := group.Wait(); err != nil {
		return nil, err
	}

	result := &Result{Elapsed: d.Measured, Latencies: NewLatencies()}
	for _, c := range clients {
		result.Answered += c.answered
		for _, took := range c.latencies {
			_ = result.Latencies.RecordValue(took.Nanoseconds()) // patience is below the histogram's limit
		}
	}

	if result.Answered == 0 {
		return nil, errors.New("no request was answered")
	}
	return result, nil
}

// client sends one request at a time, each with its own key.
type client struct {
	spec   Spec
	key    []byte // of the next request
	seq    []byte // the part of key that is counted up
	n      int64
	body   []byte
	inBody []byte // the key within body; nil if a header contains it

	answered  int64
	latencies []time.Duration
}

func newClient(s Spec, number int) *client {
	own := prefix(s.Nonce, number)
	if s.Keys > 0 {
		own = prefix(s.Nonce, 0)
	}
	c := &client{spec: s, key: []byte((own + KeyMark)[:len(KeyMark)]), body: []byte(s.Body)}
	c.seq = c.key[len(own):]
	if at := strings.Index(s.Body, KeyMark); at >= 0 {
		c.inBody = c.body[at : at+len(KeyMark)]
	}
	return c
}

// work sends requests until end, at least one. It measures the correct responses that arrive between start and
// end.
func (c *client) work(ctx context.Context, connections *fasthttp.HostClient, start, end time.Time) error {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)

	req.SetRequestURI("http://" + c.spec.Address + c.spec.Path)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	for name, value := range c.spec.Headers {
		req.Header.Set(name, value)
	}

	for now := time.Now(); c.answered == 0 || now.Before(end); {
		counter(c.seq, c.next())
		copy(c.inBody, c.key)
		for name, value := range c.spec.Headers {
			if value == KeyMark {
				req.Header.SetBytesV(name, c.key)
			}
		}
		req.SetBodyRaw(c.body)
		sent := now
		err := connections.Do(req, res)
		if ctx.Err() != nil {
			return fmt.Errorf("measuring: %w", context.Cause(ctx))
		}
		if err != nil {
			return fmt.Errorf("sending request: %w", err)
		}
		now = time.Now()
		switch {
		case res.StatusCode()/100 != 2:
			return fmt.Errorf("status %d: %s", res.StatusCode(), res.Body())
		case !bytes.Contains(res.Body(), []byte(c.spec.Expect)):
			return fmt.Errorf("response without %s: %s", c.spec.Expect, res.Body())
		}
		c.answered++
		if now.After(start) && now.Before(end) {
			c.latencies = append(c.latencies, now.Sub(sent))
		}
	}
	return nil
}

// next returns the number of the next request's key.
func (c *client) next() int64 {
	if c.spec.Keys > 0 {
		return 1 + rand.Int64N(c.spec.Keys) //nolint:gosec // G404: a number, not a secret
	}
	c.n++
	return c.n
}

// counter writes n in decimal, right-aligned over zeros, into the end of dst.
func counter(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

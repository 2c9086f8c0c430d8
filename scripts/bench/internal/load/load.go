// Package load sends requests to both sides of a comparison and measures the responses.
//
// Execute sends requests in a closed loop: a client sends its next request after the previous
// response. Execute runs on the measured machine, so it must use little CPU time. A client
// therefore prepares one request, and changes only the key from one request to the next.
//
//	client 1   request ──▶ answer, request ──▶ answer, …     the next request
//	client 2   request ──▶ answer, request ──▶ answer, …     follows the answer
//	           ├─ warm-up ─┼──────── measured ────────┤
//
// ReadStreams sends requests for streamed answers and measures the time to the first piece of each.
package load

import (
	"bytes"
	"cmp"
	"context"
	cryptorand "crypto/rand"
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

// KeyMark is the placeholder for a request's key, in the body or in a header's value. It has the
// same length as a key.
const KeyMark = "################################"

// Message is the input message of each run.
const Message = "Send the morning report to everyone who asked for it."

// Body returns a run-automation request to a target. Its idempotency key is KeyMark.
func Body(target string) string {
	return `{"target":"` + target + `","input":{"message":"` + Message + `"},"idempotencyKey":"` + KeyMark + `"}`
}

// newKey returns a client's key, and the part of the key that contains the number of a request.
func newKey(nonce string, client int) (key, seq []byte) {
	own := nonce + fmt.Sprintf("-%05d-", client)
	key = []byte((own + KeyMark)[:len(KeyMark)])
	return key, key[len(own):]
}

// NewNonce returns a random text for the field Nonce of a Spec.
func NewNonce() string { return cryptorand.Text()[:10] }

// awaitStart waits until it is time for a client to start. The clients start one after another, at
// equal intervals that together last as long as the argument spread.
func awaitStart(ctx context.Context, spread time.Duration, client, clients int) error {
	if err := lifecycle.Sleep(ctx, spread*time.Duration(client)/time.Duration(clients)); err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	return nil
}

// patience bounds the wait for outstanding responses after the end of the load.
const patience = 60 * time.Second

// Spec describes the requests of a load and their expected response. It is a value: loads copy and
// change it.
type Spec struct {
	Address string // host:port
	Method  string // empty: POST
	Path    string
	Headers map[string]string
	Body    string // contains KeyMark if each request needs its own key and no header contains it
	Expect  string // text that the body of a correct response contains
	Nonce   string // the first 10 characters of each key; empty: a new NewNonce in each execution of the load
	Keys    int64  // 0: each request has its own key; otherwise each request has one of Key(Nonce, 1) to Key(Nonce, Keys)
}

// Duration contains the number of clients and how long they send requests.
type Duration struct {
	Clients  int
	WarmUp   time.Duration // duration of the warm-up, which is not measured
	Measured time.Duration // duration of the measurement; 0: each client sends Each requests
	Each     int           // minimum number of requests of each client; 0: one
	Spread   time.Duration // time over which the clients start
}

// Result is the outcome of Execute or ReadStreams.
type Result struct {
	Answered  int64                   // number of correct responses, including those during the warm-up
	Measured  int64                   // number of responses in the measured part
	Elapsed   time.Duration           // duration of the measured part
	Latencies *hdrhistogram.Histogram // latencies in the measured part, in nanoseconds
}

// maxLatency is the longest duration that a histogram of NewLatencies records.
const maxLatency = 2 * time.Minute

// NewLatencies returns an empty histogram of durations in nanoseconds, exact to three digits.
func NewLatencies() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency.Nanoseconds(), 3) }

// Millis returns a quantile (0 to 100) of the recorded durations, in milliseconds.
func Millis(h *hdrhistogram.Histogram, quantile float64) float64 {
	return time.Duration(h.ValueAtQuantile(quantile)).Seconds() * 1e3
}

// PerSecond returns the number of measured responses per second.
func (r *Result) PerSecond() float64 {
	return float64(r.Measured) / max(r.Elapsed, 1).Seconds()
}

// Execute sends the requests of all clients, each over its own connection, until the time has
// passed or ctx ends. It returns an error after a wrong response or a broken connection, because
// the measurement would have no meaning.
func Execute(ctx context.Context, s Spec, d Duration) (*Result, error) {
	connections := &fasthttp.HostClient{
		Addr: s.Address, MaxConns: d.Clients, MaxIdemponentCallAttempts: 1, ReadTimeout: patience,
	}
	defer connections.CloseIdleConnections()

	s.Nonce = cmp.Or(s.Nonce, NewNonce())
	start := time.Now().Add(d.WarmUp)
	end := start.Add(d.Measured)
	clients := make([]*client, d.Clients)
	group, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		clients[i] = newClient(s, i)
		group.Go(func() error {
			if err := awaitStart(ctx, d.Spread, i, d.Clients); err != nil {
				return err
			}
			return clients[i].work(ctx, connections, int64(max(d.Each, 1)), start, end)
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

	result.Measured = result.Latencies.TotalCount()
	if result.Answered == 0 {
		return nil, errors.New("no request was answered")
	}
	return result, nil
}

// client sends requests, one at a time. Each request has its own key.
type client struct {
	spec   Spec
	key    []byte // key of the next request
	seq    []byte // the part of key that contains the number of the request
	n      int64
	body   []byte
	inBody []byte // the part of body that contains the key; nil if a header contains the key

	answered  int64
	latencies []time.Duration
}

// newClient returns the client with the given number. Clients that share keys have the same key
// prefix.
func newClient(s Spec, number int) *client {
	if s.Keys > 0 {
		number = 0
	}
	c := &client{spec: s, body: []byte(s.Body)}
	c.key, c.seq = newKey(s.Nonce, number)
	if at := strings.Index(s.Body, KeyMark); at >= 0 {
		c.inBody = c.body[at : at+len(KeyMark)]
	}
	return c
}

// work sends requests until the time in the argument end, and until it has received as many
// responses as the argument least requires. It records the latencies of the correct responses that
// arrive between start and end. It changes the key in the prepared request in place, which costs
// almost nothing.
func (c *client) work(ctx context.Context, connections *fasthttp.HostClient, least int64, start, end time.Time) error {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)

	req.SetRequestURI("http://" + c.spec.Address + c.spec.Path)
	req.Header.SetMethod(cmp.Or(c.spec.Method, fasthttp.MethodPost))
	req.Header.SetContentType("application/json")
	for name, value := range c.spec.Headers {
		req.Header.Set(name, value)
	}

	for now := time.Now(); c.answered < least || now.Before(end); {
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

// next returns the number for the key of the next request.
func (c *client) next() int64 {
	if c.spec.Keys > 0 {
		return 1 + rand.Int64N(c.spec.Keys) //nolint:gosec // G404: a number, not a secret
	}
	c.n++
	return c.n
}

// counter fills dst with n in decimal, padded with zeros on the left.
func counter(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

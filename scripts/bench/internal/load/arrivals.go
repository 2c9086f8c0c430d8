package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Arrivals are an open loop: requests are due at moments that do not depend on the answers. The zero value is none.
type Arrivals struct {
	Rate     float64 `json:"rate"`     // a second, on average; 0: a closed loop
	Seed     uint64  `json:"seed"`     // of the gaps between them
	InFlight int     `json:"inFlight"` // so many may be unanswered at a time: more is an error
}

// schedule is a Poisson process: the gaps are exponential, so that a request is as likely at any moment, whenever the last one was.
type schedule struct {
	random *rand.Rand
	gap    float64 // mean, in nanoseconds
	at     time.Duration
}

func newSchedule(a Arrivals) *schedule {
	random := rand.New(rand.NewPCG(a.Seed, 1)) //nolint:gosec // G404: it must be drawn again by whoever has the seed
	return &schedule{random: random, gap: float64(time.Second) / a.Rate}
}

// next is when the next request is due, from the beginning.
func (s *schedule) next() time.Duration {
	s.at += time.Duration(s.random.ExpFloat64() * s.gap)
	return s.at
}

// arrivals sends requests when they are due.
type arrivals struct {
	spec       Spec
	begin      time.Time
	start, end time.Time // of the measured part
	fail       context.CancelCauseFunc
	all        sync.WaitGroup   // of the requests in flight
	slots      chan struct{}    // one for each of them
	free       chan *connection // in turn, so that none is idle for long
	result     *Result

	opened atomic.Int64
	mu     sync.Mutex
	conns  []*connection // all
}

// arrive sends what is due until the time is over or ctx ends, over s.Clients connections, and more when none of them is free.
func arrive(ctx context.Context, s Spec) (*Result, error) {
	conns, err := open(ctx, s)
	if err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	begin := time.Now()
	a := &arrivals{
		spec: s, begin: begin, start: begin.Add(s.WarmUp), end: begin.Add(s.WarmUp + s.Duration), fail: fail, conns: conns,
		slots: make(chan struct{}, s.Arrivals.InFlight), free: make(chan *connection, s.Clients+s.Arrivals.InFlight),
		result: &Result{Failed: map[string]int64{}},
	}
	unhook := context.AfterFunc(ctx, a.shut)
	defer unhook()
	defer a.shut()
	a.opened.Store(int64(len(conns)))
	for _, c := range conns {
		if err := a.limit(c); err != nil {
			return nil, err
		}
		a.free <- c
	}
	a.send(ctx)
	a.all.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("measuring: %w", context.Cause(ctx))
	}
	a.result.Elapsed = max(s.Duration, time.Since(a.start))
	a.result.add(a.conns)
	return a.result, nil
}

// send sends what is due until nothing is any more.
func (a *arrivals) send(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	times := newSchedule(a.spec.Arrivals)
	for due := a.begin.Add(times.next()); due.Before(a.end); due = a.begin.Add(times.next()) {
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		select {
		case a.slots <- struct{}{}:
		default:
			a.fail(fmt.Errorf("the service does not keep up: %d requests are in flight %s after the first, at %.0f a second",
				len(a.slots), time.Since(a.begin).Round(time.Millisecond), a.spec.Arrivals.Rate))
			return
		}
		if !due.Before(a.start) {
			a.result.InFlight = max(a.result.InFlight, len(a.slots))
			a.result.Offered++
			a.result.Late.Record(time.Since(due))
		}
		a.all.Go(func() {
			if err := a.request(ctx, due); err != nil {
				a.fail(err)
			}
			<-a.slots
		})
	}
}

// request sends one. Its latency counts from when it was due: whatever kept it from being sent then is part of it.
func (a *arrivals) request(ctx context.Context, due time.Time) error {
	c, err := a.connection(ctx)
	if err != nil {
		return err
	}
	right, err := c.ask()
	if err != nil {
		return err
	}
	if right && !due.Before(a.start) {
		c.latencies.Record(time.Since(due))
	}
	a.free <- c
	return nil
}

// connection is a free one, or a new one.
func (a *arrivals) connection(ctx context.Context) (*connection, error) {
	select {
	case c := <-a.free:
		return c, nil
	default:
	}
	c, err := connect(ctx, a.spec, int(a.opened.Add(1))-1)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.conns = append(a.conns, c)
	a.mu.Unlock()
	if ctx.Err() != nil { // the others may have been shut before
		shut([]*connection{c})
	}
	return c, a.limit(c)
}

// limit has a connection wait for answers until patience is over.
func (a *arrivals) limit(c *connection) error {
	if err := c.conn.SetDeadline(a.end.Add(patience)); err != nil {
		return fmt.Errorf("setting deadline: %w", err)
	}
	return nil
}

func (a *arrivals) shut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	shut(a.conns)
}

package waiting

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/scripts/bench/internal/latency"
	"parley/scripts/bench/internal/report"
)

const (
	roundsTime  = time.Second             // in which everybody is told something again and again
	steadyTime  = 1500 * time.Millisecond // in which tokens come at a rate that leaves the machine room
	steadyEvery = 2 * time.Millisecond
	steadyEach  = 4 // tokens at a time: 2,000/s
)

// audience is listeners, each of which hears tokens of its own.
type audience struct {
	size int
	tell func(listener, nth int, text string) error

	told    []int // by listener
	arrived chan struct{}
	mu      sync.Mutex
	delays  latency.Histogram
}

func newAudience(size int, tell func(listener, nth int, text string) error) *audience {
	return &audience{size: size, tell: tell, told: make([]int, size), arrived: make(chan struct{}, size)}
}

// say tells one listener a token. A token with a time is one whose delay counts.
func (a *audience) say(listener int, at string) error {
	a.told[listener]++
	return a.tell(listener, a.told[listener], at+" ")
}

// hear is called by listeners with what they hear.
func (a *audience) hear(text string) error {
	if at := strings.TrimSpace(text); at != "" {
		sent, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return fmt.Errorf("heard %q", text)
		}
		delay := time.Since(time.Unix(0, sent))
		a.mu.Lock()
		a.delays.Record(delay)
		a.mu.Unlock()
	}
	a.arrived <- struct{}{}
	return nil
}

// await waits until so many tokens have arrived.
func (a *audience) await(ctx context.Context, tokens int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for n := range tokens {
		select {
		case <-a.arrived:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d tokens have arrived: %w", n, tokens, context.Cause(ctx))
		}
	}
	return nil
}

// measure tells everybody a token and waits until all have it, again and again; then it tells tokens one by one.
func (a *audience) measure(ctx context.Context) (out report.FanOutSide, err error) {
	if err := a.everybody(ctx); err != nil { // what is made once is made here
		return out, err
	}
	rounds, began := 0, time.Now()
	for time.Since(began) < roundsTime {
		if err := a.everybody(ctx); err != nil {
			return out, err
		}
		rounds++
	}
	out.PerSecond = float64(rounds*a.size) / time.Since(began).Seconds()
	if err := a.steadily(ctx); err != nil {
		return out, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	out.P50, out.P99 = a.delays.Quantile(0.5).Seconds()*1e3, a.delays.Quantile(0.99).Seconds()*1e3
	return out, nil
}

func (a *audience) everybody(ctx context.Context) error {
	for listener := range a.size {
		if err := a.say(listener, ""); err != nil {
			return err
		}
	}
	return a.await(ctx, a.size)
}

func (a *audience) steadily(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	total := int(steadyTime/steadyEvery) * steadyEach
	told := make(chan error, 1)
	go func() { told <- a.oneByOne(ctx, total) }()
	if err := a.await(ctx, total); err != nil {
		return err
	}
	return <-told
}

func (a *audience) oneByOne(ctx context.Context, total int) error {
	tick := time.NewTicker(steadyEvery)
	defer tick.Stop()
	for n := range total {
		if n%steadyEach == 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := a.say(n%a.size, strconv.FormatInt(time.Now().UnixNano(), 10)); err != nil {
			return err
		}
	}
	return nil
}

package abuse

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/lifecycle"
)

const (
	// maxTimes is the allowed ratio of the victim's latency during an attack to its latency alone.
	maxTimes = 2
	// allowance and medianAllowance are the increases of the 99th percentile and of the median that
	// are always allowed. Attackers, victim, service and database share two cores, so a request
	// sometimes waits for several other programs in turn.
	allowance       = 75 * time.Millisecond
	medianAllowance = 25 * time.Millisecond
	// busyShare is the share of all cores that other programs may use during a quiet measurement.
	busyShare = 0.25
	// maxQuiet is the number of consecutive measurements, above the bound and on a quiet machine,
	// after which the test fails. maxTries is the maximum number of measurements, including those
	// on a busy machine.
	maxQuiet = 3
	maxTries = 4
	// refill is the time in which the rate limit restores half of a minute's requests. In the short
	// form, most measurements send about that number of requests in one burst.
	refill = 30 * time.Second
)

// attack is one of the attacks and the conditions under which its measurement counts.
type attack struct {
	// run attacks until ctx ends. It returns when all of its requests have finished.
	run func(ctx context.Context)
	// begun waits until the attack has its full effect or ctx ends. If begun is nil, the attack has
	// its full effect at once.
	begun func(ctx context.Context)
	// calm waits after an attack until the service has finished the attack's work. It may be nil.
	calm func(ctx context.Context)
	// sent counts the responses to the attackers. shows contains the required number of responses
	// of each kind. With fewer responses, the attack was too weak to prove anything.
	sent  *tally
	shows map[string]int
}

// plan contains the number and the duration of the measurements.
type plan struct {
	rounds int
	each   time.Duration // duration of each part of a round: alone, and during the attack
	again  time.Duration // pause before another measurement, in which the limits of victim and attackers recover
}

// formPlan returns the plan of the test's form: the argument short in the short form, and a plan of
// several minutes in the long form.
func formPlan(short plan) plan {
	if testing.Short() {
		return short
	}
	return plan{rounds: 6, each: 10 * time.Second}
}

// pace returns the time between two requests of one kind. In the long form, this time is long
// enough to keep a victim within the rate limits. The requests of the short form fit into the burst
// that the limits allow.
func pace(short time.Duration) time.Duration {
	if testing.Short() {
		return short
	}
	return 4 * short
}

// measured contains the results of one measurement of a victim, alone and during an attack.
type measured struct {
	alone, during         latencies
	usedAlone, usedBeside cores
}

// busy reports whether other programs used more than the allowed share of the machine.
func (m *measured) busy() bool {
	return max(m.usedAlone.others(), m.usedBeside.others()) > busyShare*float64(runtime.NumCPU())
}

// judge measures the victim alternately alone and during the attack. It fails the test if the
// victim's latency during the attack exceeds the bound.
func (s *service) judge(t *testing.T, p plan, v *victim, a attack) {
	t.Helper()
	_ = v.live(t.Context(), p.each/2) // warm-up, which opens connections and fills caches
	open := v.names()
	quiet := map[string]int{} // for each probe, the number of consecutive measurements above the bound on a quiet machine
	last := map[string]string{}
	for tries := 0; tries < maxTries && len(open) > 0 && len(v.refused) == 0; tries++ {
		if tries > 0 {
			_ = lifecycle.Sleep(t.Context(), p.again)
		}
		m := s.measure(t, p, v, a)
		last = v.above(m)
		open = slices.DeleteFunc(open, func(name string) bool { return last[name] == "" })
		for _, name := range open {
			if !m.busy() {
				quiet[name]++
			}
		}
		if slices.ContainsFunc(open, func(name string) bool { return quiet[name] >= maxQuiet }) {
			break
		}
	}

	if len(a.missing()) > 0 {
		a.continueAttack(t)
	}

	t.Logf("responses to the attackers: %s", a.sent)
	for _, name := range open {
		switch {
		case len(v.refused) > 0: // rejected requests have ended the measurements
		case quiet[name] >= maxQuiet:
			t.Errorf("above the bound in all %d measurements: %s", quiet[name], last[name])
		default:
			t.Logf("NOT TESTED in %s, because other programs use the machine: %s", t.Name(), last[name])
		}
	}

	for _, what := range v.refused[:min(len(v.refused), 10)] {
		t.Errorf("a request from the victim was rejected: %s", what)
	}

	if n := len(v.refused); n > 0 {
		t.Errorf("%d requests from the victim were rejected", n)
	}
}

func (s *service) measure(t *testing.T, p plan, v *victim, a attack) *measured {
	t.Helper()
	m := &measured{alone: latencies{}, during: latencies{}}
	live := func() latencies { return v.live(t.Context(), p.each) }
	for range p.rounds {
		m.alone.add(m.usedAlone.measure(s.process.PID(), live))
		m.during.add(a.during(t.Context(), func() latencies { return m.usedBeside.measure(s.process.PID(), live) }))
	}
	for _, probe := range v.probes {
		t.Log(m.text(probe.name))
	}
	t.Logf("alone %s; during the attack %s", &m.usedAlone, &m.usedBeside)
	return m
}

// continueAttack continues the attack without a victim until all required responses have arrived.
// On a busy machine they may take longer than the rounds.
func (a attack) continueAttack(t *testing.T) {
	t.Helper()
	const limit = 30 * time.Second
	a.during(t.Context(), func() latencies {
		for began := time.Now(); len(a.missing()) > 0 && time.Since(began) < limit; {
			_ = lifecycle.Sleep(t.Context(), 50*time.Millisecond)
		}
		return nil
	})
	for _, what := range a.missing() {
		t.Errorf("the attack had no effect: %s", what)
	}
}

// missing lists the required responses that the attackers have not received often enough.
func (a attack) missing() (missing []string) {
	for _, what := range slices.Sorted(maps.Keys(a.shows)) {
		if got := a.sent.of(what); got < a.shows[what] {
			missing = append(missing, fmt.Sprintf("%d × %s, want at least %d", got, what, a.shows[what]))
		}
	}
	return missing
}

// during starts the attack, calls measure, and stops the attack.
func (a attack) during(ctx context.Context, measure func() latencies) latencies {
	attacking, stop := context.WithCancel(ctx)
	defer stop()

	over := make(chan struct{})
	go func() {
		defer close(over)
		a.run(attacking)
	}()
	if a.begun != nil {
		a.begun(ctx)
	}

	found := measure()
	stop()
	<-over
	if a.calm != nil {
		a.calm(ctx)
	}
	return found
}

// above returns a description of each probe whose latency exceeds the bound, by the probe's name.
func (v *victim) above(m *measured) map[string]string {
	found := map[string]string{}
	for _, p := range v.probes {
		if m.above(p.name, 0.99, max(allowance, p.allowance)) || m.above(p.name, 0.5, max(medianAllowance, p.allowance)) {
			found[p.name] = m.text(p.name)
		}
	}
	return found
}

// above reports whether a percentile during the attack exceeds the bound. The bound is maxTimes
// times the percentile without the attack, but at least that percentile plus the given allowance.
func (m *measured) above(name string, p float64, allowance time.Duration) bool {
	alone, during := percentile(m.alone[name], p), percentile(m.during[name], p)
	return during > max(maxTimes*alone, alone+allowance)
}

func (m *measured) text(name string) string {
	own, others := percentile(m.alone[name], 0.99), percentile(m.during[name], 0.99)
	return fmt.Sprintf("%s: p50 %s alone, %s during; p99 %s alone, %s during (%.2f times), for %d and %d requests", name,
		shown(percentile(m.alone[name], 0.5)), shown(percentile(m.during[name], 0.5)), shown(own), shown(others),
		others.Seconds()/own.Seconds(), len(m.alone[name]), len(m.during[name]))
}

func shown(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// percentile returns the percentile p (0 to 1) of durations, by the nearest-rank method.
func percentile(of []time.Duration, p float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// tally counts events by name.
type tally struct {
	mu sync.Mutex
	by map[string]int
}

// add counts a response by the name of its request and by its status. It ignores a request that was
// canceled because the attack ended.
func (c *tally) add(ctx context.Context, what string, a api.Answer) {
	switch {
	case a.Err == nil:
		c.count(fmt.Sprintf("%s %d", what, a.Status))
	case ctx.Err() == nil:
		c.count(what + " without answer")
	}
}

func (c *tally) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[what]++
}

// of returns the number of events with a name.
func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[what]
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c.by)) {
		all = append(all, fmt.Sprintf("%d × %s", c.by[what], what))
	}
	return strings.Join(all, ", ")
}

// paced calls f at a steady rate until ctx ends, with at most the given number of concurrent calls.
// While that number of calls is running, it skips calls, because attackers have a limited number of
// connections. It returns when all calls have returned.
func paced(ctx context.Context, every time.Duration, callers int, f func(ctx context.Context, n int)) {
	var all sync.WaitGroup
	defer all.Wait()

	free := make(chan struct{}, callers)
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case free <- struct{}{}:
			all.Go(func() {
				f(ctx, n)
				<-free
			})
		default:
		}
		_ = lifecycle.Sleep(ctx, every)
	}
}

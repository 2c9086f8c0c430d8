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
)

const (
	// timesMax is how many times its latency alone a victim's latency may be beside an attack.
	timesMax = 2
	// floor and medianFloor are by how much the 99th percentile and the median may rise in any case: attackers, victim, service and
	// database share two cores, so that a request waits for some turns of the scheduler.
	floor       = 75 * time.Millisecond
	medianFloor = 25 * time.Millisecond
	// busyShare is the part of the machine's cores that other programs may use during a measurement that counts.
	busyShare = 0.25
	// quietMax is how many measurements on a quiet machine must be above the bound, one after another, before they fail the test.
	// triesMax is how many measurements there are at most, those on a busy machine included.
	quietMax = 3
	triesMax = 4
	// refill is the time in which a victim may make half a minute's requests again: a measurement of the short form takes that many at once.
	refill = 30 * time.Second
)

// attack is what attackers do beside a victim.
type attack struct {
	// run attacks until ctx ends. It returns when its requests are over.
	run func(ctx context.Context)
	// begun, if not nil, returns once the attack is in full force, or when ctx ends.
	begun func(ctx context.Context)
	// calm, if not nil, waits after an attack until nothing of it is left in the service.
	calm func(ctx context.Context)
	// sent counts what attackers were answered, and shows is how often each must have come: else it was no attack.
	sent  *tally
	shows map[string]int
}

// plan is how long a judge measures.
type plan struct {
	rounds int
	each   time.Duration // alone, and beside the attack
}

// planned is the plan of a test in the short form, and one that takes minutes.
func planned(short plan) plan {
	if testing.Short() {
		return short
	}
	return plan{rounds: 6, each: 10 * time.Second}
}

// pace is the time between two requests of a kind. In the long form it keeps a victim within the limits of requests, which let a short
// form pass at once.
func pace(short time.Duration) time.Duration {
	if testing.Short() {
		return short
	}
	return 4 * short
}

// measured is what one measurement found of a victim, alone and beside an attack.
type measured struct {
	alone, beside         latencies
	usedAlone, usedBeside cores
}

// busy reports that others used the machine.
func (m *measured) busy() bool {
	return max(m.usedAlone.others(), m.usedBeside.others()) > busyShare*float64(runtime.NumCPU())
}

// judge measures the victim alone and beside the attack, in turn, and fails the test if the attack hurts it.
func (s *service) judge(t *testing.T, p plan, v *victim, a attack) {
	t.Helper()
	_ = v.live(t.Context(), p.each/2) // the first requests are slower: they open connections and fill caches
	open := v.names()
	quiet := map[string]int{} // measurements on a quiet machine that were above the bound
	last := map[string]string{}
	for tries := 0; tries < triesMax && len(open) > 0 && len(v.refused) == 0; tries++ {
		if tries > 0 && testing.Short() {
			wait(t.Context(), refill)
		}
		m := s.measure(t, p, v, a)
		last = v.above(m)
		open = slices.DeleteFunc(open, func(name string) bool { return last[name] == "" })
		for _, name := range open {
			if !m.busy() {
				quiet[name]++
			}
		}
		if slices.ContainsFunc(open, func(name string) bool { return quiet[name] >= quietMax }) {
			break
		}
	}
	if len(a.missing()) > 0 {
		a.goOn(t)
	}
	t.Logf("attackers were answered: %s", a.sent)
	for _, name := range open {
		switch {
		case len(v.refused) > 0: // which ended the measurements
		case quiet[name] >= quietMax:
			t.Errorf("above the bound each of %d times: %s", quiet[name], last[name])
		default:
			t.Logf("NOT TESTED in %s, because other programs use the machine: %s", t.Name(), last[name])
		}
	}
	for _, what := range v.refused[:min(len(v.refused), 10)] {
		t.Errorf("the victim was refused: %s", what)
	}
	if n := len(v.refused); n > 0 {
		t.Errorf("%d requests of the victim were refused", n)
	}
}

func (s *service) measure(t *testing.T, p plan, v *victim, a attack) *measured {
	t.Helper()
	m := &measured{alone: latencies{}, beside: latencies{}}
	live := func() latencies { return v.live(t.Context(), p.each) }
	for range p.rounds {
		m.alone.add(m.usedAlone.measure(s.process.PID(), live))
		m.beside.add(a.beside(t.Context(), func() latencies { return m.usedBeside.measure(s.process.PID(), live) }))
	}
	for _, probe := range v.probes {
		t.Log(m.text(probe.name))
	}
	t.Logf("alone %s; beside the attack %s", &m.usedAlone, &m.usedBeside)
	return m
}

// goOn attacks without a victim until the attack has shown what it must: a busy machine takes longer than the rounds.
func (a attack) goOn(t *testing.T) {
	t.Helper()
	const limit = 30 * time.Second
	a.beside(t.Context(), func() latencies {
		for began := time.Now(); len(a.missing()) > 0 && time.Since(began) < limit; {
			wait(t.Context(), 50*time.Millisecond)
		}
		return nil
	})
	for _, what := range a.missing() {
		t.Errorf("it was no attack: %s", what)
	}
}

// missing says what the attack has not shown yet.
func (a attack) missing() (missing []string) {
	for _, what := range slices.Sorted(maps.Keys(a.shows)) {
		if got := a.sent.of(what); got < a.shows[what] {
			missing = append(missing, fmt.Sprintf("%d × %s, want at least %d", got, what, a.shows[what]))
		}
	}
	return missing
}

// beside measures while the attack runs.
func (a attack) beside(ctx context.Context, measure func() latencies) latencies {
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

// above returns what is above the bound, by the name of the probe.
func (v *victim) above(m *measured) map[string]string {
	found := map[string]string{}
	for _, p := range v.probes {
		if m.above(p.name, 0.99, max(floor, p.floor)) || m.above(p.name, 0.5, max(medianFloor, p.floor)) {
			found[p.name] = m.text(p.name)
		}
	}
	return found
}

// above reports whether a percentile beside the attack is more than timesMax times that alone, and by more than floor.
func (m *measured) above(name string, p float64, floor time.Duration) bool {
	alone, beside := percentile(m.alone[name], p), percentile(m.beside[name], p)
	return beside > max(timesMax*alone, alone+floor)
}

func (m *measured) text(name string) string {
	own, others := percentile(m.alone[name], 0.99), percentile(m.beside[name], 0.99)
	return fmt.Sprintf("%s: p50 %s alone, %s beside; p99 %s alone, %s beside (%.2f times) of %d and %d requests", name,
		shown(percentile(m.alone[name], 0.5)), shown(percentile(m.beside[name], 0.5)), shown(own), shown(others),
		others.Seconds()/own.Seconds(), len(m.alone[name]), len(m.beside[name]))
}

func shown(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// percentile is the nearest-rank percentile, p being from 0 to 1.
func percentile(of []time.Duration, p float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// tally counts by text.
type tally struct {
	mu sync.Mutex
	by map[string]int
}

// add counts an answer: what was asked, and the status. A request that the end of its attack cut off does not count.
func (c *tally) add(ctx context.Context, what string, a answer) {
	switch {
	case a.err == nil:
		c.count(fmt.Sprintf("%s %d", what, a.status))
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

// of is how often something was counted.
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

// paced calls f at a steady rate until ctx ends, in so many goroutines at most, and returns when all calls are over. A call that finds
// none free is left out: attackers have a bounded number of connections.
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
		wait(ctx, every)
	}
}

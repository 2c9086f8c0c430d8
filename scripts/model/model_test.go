package model

import (
	"flag"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	seedFlag   = flag.Uint64("model.seed", 0, "run and print only the schedule with this seed")
	mutantFlag = flag.String("model.mutant", "", "mutant to run with -model.seed")
	countFlag  = flag.Int("model.schedules", 0, "how many schedules to run")
)

// Numbers of schedules. TestPromises needs about half a minute of CPU time for manySchedules, and
// three seconds for fewSchedules, which it uses with -short.
const (
	fewSchedules  = 1_000
	manySchedules = 12_000
	mutantWithin  = 12_000 // number of schedules within which each mutant must be found
)

// core is a lock that lets only one test run at a time, so that each test measures only its own CPU
// time.
var core sync.Mutex

// TestSchedule runs the schedule of one seed and prints it.
func TestSchedule(t *testing.T) {
	t.Parallel()
	if *seedFlag == 0 {
		t.Skip("NOT RUN: -args -model.seed=N runs the schedule with seed N")
	}

	m := mutant{}
	for _, other := range mutants {
		if other.name == *mutantFlag {
			m = other.mutant
		}
	}

	if *mutantFlag != m.name {
		t.Fatalf("unknown mutant %q", *mutantFlag)
	}

	s := newSim(*seedFlag, m)
	s.trace = func(line string) { t.Log(line) }
	if v := s.run(); v != nil {
		t.Error(v)
	}
}

// TestPromises runs many schedules of the unmodified protocol. It fails if one of them breaks a
// promise.
func TestPromises(t *testing.T) {
	t.Parallel()
	core.Lock()
	defer core.Unlock()

	count := manySchedules
	if testing.Short() {
		count = fewSchedules
	}
	if *countFlag > 0 {
		count = *countFlag
	}

	total := tally{ends: map[string]int{}}
	began, beganCPU := time.Now(), cpu(t)
	for seed := uint64(1); seed <= uint64(count); seed++ {
		s := newSim(seed, mutant{})
		if v := s.run(); v != nil {
			t.Fatalf("%v\nto repeat: go test ./scripts/model -run TestSchedule -v -args -model.seed=%d", v, seed)
		}
		total.add(s)
	}

	total.log(t, time.Since(began), cpu(t)-beganCPU)
}

// cpu returns the CPU time used by the process so far.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// tally counts events in the schedules, to show that these events happen in the schedules.
type tally struct {
	schedules, quiet, runs, kills, effects, lost int
	events                                       uint64
	ends                                         map[string]int
	batches                                      [maxCountedBatch + 1]int
}

func (c *tally) add(s *sim) {
	c.schedules++
	if s.quiet() {
		c.quiet++
	}

	c.runs += len(s.db.runs)
	c.kills += s.kills
	c.effects += s.effects
	c.lost += s.db.lost + s.bus.lost
	c.events += s.events
	for size, n := range s.batches {
		c.batches[size] += n
	}

	for _, r := range s.db.runs {
		c.ends[r.status]++
	}
}

func (c *tally) log(t *testing.T, took, used time.Duration) {
	t.Helper()
	t.Logf("%d schedules, %d of them quiet, in %v with %v of a core: %.0f a minute", c.schedules, c.quiet, took.Round(time.Millisecond),
		used.Round(time.Millisecond), float64(c.schedules)/used.Minutes())
	t.Logf("batches of claims and results, by size: %v", c.batches[1:])
	t.Logf("%d events; %d runs %v, %d effects, %d kills, %d lost messages and replies", c.events, c.runs, c.ends, c.effects, c.kills, c.lost)
}

// TestMutants shows that the checks find missing rules. For each rule that a mutant omits, some
// schedule must break the promise that the rule protects.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			core.Lock()
			defer core.Unlock()
			for seed := uint64(1); seed <= mutantWithin; seed++ {
				v := newSim(seed, m.mutant).run()
				switch {
				case v == nil:
					continue
				case v.rule != m.breaks && v.rule != m.or:
					t.Errorf("broken promise = %v, want %q", v, m.breaks)
				default:
					t.Logf("%v", v)
				}
				return
			}
			t.Errorf("no promise is broken in %d schedules", mutantWithin)
		})
	}
}

package prove

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"
)

var allKinds = []string{kindWorker, kindNATS, kindIngress, kindPostgres}

// TestScheduleOfASeed compares the kills of one seed with a fixed list, because a seed from an
// earlier build must produce the same kills.
func TestScheduleOfASeed(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	for name, c := range map[string]struct {
		seed              uint64
		triggers, workers int
		kinds             []string
		want              []Kill
	}{
		"all": {1, 1000, 2, allKinds, []Kill{
			{"worker 1", kindWorker, 53, 125 * ms},
			{"nats", kindNATS, 106, 288 * ms},
			{"ingress", kindIngress, 183, 201 * ms},
			{"worker 2", kindWorker, 207, 222 * ms},
			{"worker 1", kindWorker, 220, 481 * ms},
			{"nats", kindNATS, 245, 609 * ms},
			{"ingress", kindIngress, 298, 113 * ms},
			{"worker 2", kindWorker, 435, 280 * ms},
			{"postgres", kindPostgres, 493, 561 * ms},
		}},
		"two kinds, in any order": {1, 100, 2, []string{kindPostgres, kindNATS}, []Kill{
			{"nats", kindNATS, 17, 747 * ms}, {"nats", kindNATS, 43, 650 * ms}, {"postgres", kindPostgres, 46, 85 * ms},
		}},
		"the largest seed, one trigger": {math.MaxUint64, 1, 1, []string{kindPostgres}, []Kill{{"postgres", kindPostgres, 0, 463 * ms}}},
		"none":                          {1, 1000, 2, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second call must not depend on the first one
				if got := schedule(c.seed, c.triggers, c.workers, c.kinds); !reflect.DeepEqual(got, c.want) {
					t.Fatalf("kills = %+v", got)
				}
			}
		})
	}
}

// TestEveryScheduleHitsEverythingInTime checks the rules that every schedule must obey, for many
// seeds.
func TestEveryScheduleHitsEverythingInTime(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(200) {
		for _, triggers := range []int{1, 2, 19, 100, 1000, maxTriggers} {
			for _, workers := range []int{1, 2, maxWorkers} {
				kills := schedule(seed, triggers, workers, allKinds)
				hits := map[string]int{}
				for i, s := range kills {
					hits[s.Part]++
					if s.After < triggers/20 || s.After > triggers/2 || i > 0 && s.After < kills[i-1].After || s.Down < 0 || s.Down > maxDown {
						t.Fatalf("seed %d, %d triggers, %d workers: kill %d is %+v", seed, triggers, workers, i, s)
					}
				}
				want := map[string]int{kindNATS: 2, kindIngress: 2, kindPostgres: 1}
				for _, w := range partsFor(kindWorker, workers) {
					want[w] = 2
				}
				if !reflect.DeepEqual(hits, want) {
					t.Fatalf("seed %d, %d workers: kills at %v", seed, workers, hits)
				}
				if triggers == 1000 && workers == 2 {
					order := ""
					for _, s := range kills {
						order += s.Part + ","
					}
					seen[order] = true
				}
			}
		}
	}

	if len(seen) < 190 {
		t.Errorf("200 seeds give only %d different orders", len(seen))
	}
}

// TestRunsThatWaitForLeasesAreAMinority checks the number of runs that wait for a lease. If there
// were too many, no answers would arrive and no kill would be due until the leases expire.
func TestRunsThatWaitForLeasesAreAMinority(t *testing.T) {
	t.Parallel()
	strikesPerWorker := times[slices.IndexFunc(times, func(k struct {
		kind  string
		times int
	},
	) bool {
		return k.kind == kindWorker
	})].times

	for _, triggers := range []int{1, 2, 50, 100, 999, 1000, maxTriggers} {
		for workers := 1; workers <= maxWorkers; workers++ {
			s := sizesFor(triggers, workers)
			if s.clients < 1 || s.clients > maxClients || s.slots < 1 {
				t.Fatalf("sizes for %d triggers and %d workers = %+v", triggers, workers, s)
			}
			if stranded := strikesPerWorker * workers * s.slots; s.slots > 1 && stranded > s.clients/2 {
				t.Errorf("%d triggers, %d workers: %d of %d may wait for leases", triggers, workers, stranded, s.clients)
			}
		}
	}
}

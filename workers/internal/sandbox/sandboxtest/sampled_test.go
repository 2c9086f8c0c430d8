//go:build linux

package sandboxtest

import "testing"

// TestSampled checks that each program can be chosen, and that the brief programs always run.
func TestSampled(t *testing.T) {
	t.Parallel()
	all := excesses()
	brief := 0
	for _, e := range all {
		if e.brief {
			brief++
		}
	}
	chosen := map[string]int{}
	const seeds = 100
	for seed := range uint64(seeds) {
		kept := sampled(all, seed)
		if others := len(all) - brief; len(kept) != brief+(others+1)/2 {
			t.Fatalf("seed %d: %d of %d programs", seed, len(kept), len(all))
		}
		for _, e := range kept {
			chosen[e.name]++
		}
	}
	for _, e := range all {
		if n := chosen[e.name]; n == 0 || e.brief && n != seeds {
			t.Errorf("%q was chosen %d times of %d", e.name, n, seeds)
		}
	}
}

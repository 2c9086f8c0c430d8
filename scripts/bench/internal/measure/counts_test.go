package measure

import (
	"testing"

	"parley/scripts/bench/internal/report"
)

func TestCountsBetweenTwoMoments(t *testing.T) {
	t.Parallel()
	before := counts{commits: 100, syncs: 10, allocated: map[string]float64{"ingress": 1e6, "worker": 2e6}}
	after := counts{commits: 150, syncs: 35, allocated: map[string]float64{"ingress": 3e6, "worker": 7e6}}
	var round report.Round
	before.until(after, 1000, &round)
	if round.CommitsPerRun != 0.05 || round.WALSyncsPerRun != 0.025 || round.Bytes["ingress"] != 2000 || round.Bytes["worker"] != 5000 {
		t.Errorf("by run: %+v", round)
	}
	var quiet report.Round
	counts{}.until(counts{commits: 5}, 0, &quiet)
	if quiet.CommitsPerRun != 5 || quiet.Bytes != nil {
		t.Errorf("without runs, and of processes that do not tell: %+v", quiet)
	}
}

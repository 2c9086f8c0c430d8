package measure

import (
	"math"
	"runtime"
	"testing"
	"time"
)

func TestUsageBetweenTwoMoments(t *testing.T) {
	t.Parallel()
	start := time.Now()
	before := usage{known: true, at: start, all: time.Hour, by: map[string]time.Duration{"ingress": time.Minute, "postgres": time.Second}}
	whole := time.Duration(runtime.NumCPU()) * 10 * time.Second
	after := usage{
		known: true, at: start.Add(10 * time.Second), all: time.Hour + 4*time.Second + whole/4,
		by: map[string]time.Duration{"ingress": time.Minute + 2*time.Second, "postgres": 2 * time.Second},
	}
	perRun, others := before.until(after, time.Second, 1000)
	if len(perRun) != 3 || perRun["ingress"] != 2000 || perRun["postgres"] != 1000 || perRun["client"] != 1000 {
		t.Errorf("CPU time a run is %v", perRun)
	}
	if math.Abs(others-0.25) > 1e-9 {
		t.Errorf("others had %v of the machine", others)
	}
	after.all = time.Hour // coarse clocks may say less than was taken
	if _, others := before.until(after, time.Second, 1000); others != 0 {
		t.Errorf("others had %v of the machine", others)
	}
	if perRun, others := (usage{}).until(after, time.Second, 1000); perRun != nil || others != 0 {
		t.Errorf("from nothing came %v, %v", perRun, others)
	}
}

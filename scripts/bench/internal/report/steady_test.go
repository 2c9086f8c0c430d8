package report

import "testing"

// steadied is a report of arrivals at a share of the peak.
func steadied() *Report {
	r := &Report{Setup: setup()}
	used := func(shift float64) map[string]float64 {
		return map[string]float64{"ingress": 100 * shift, "worker": 90 * shift, "nats-server": 40, "postgres": 200 * shift, "client": 20}
	}
	r.AddSteady(&Steady{
		Clients: 128, Share: 0.8, Seed: 1, Seconds: 60, Offered: 1602.5, P999: 81, InFlight: 97, LateP99: 1.1, LateMax: 4.25,
		Peak:  Round{RunsPerSecond: 2000, P50: 60, P99: 120, Max: 150, CommitsPerRun: 0.2, CPU: used(1)},
		Round: Round{RunsPerSecond: 1602.1, P50: 9, P99: 30, Max: 99.5, CommitsPerRun: 0.5, CPU: used(1.5), Others: 0.125},
	})
	return r
}

func TestSteadyIsHeldAgainstItsGoal(t *testing.T) {
	t.Parallel()
	r := steadied()
	if len(r.Goals) != 1 || r.Goals[0].Value != 9 || !r.Goals[0].Met || r.Goals[0].Limit != 10 {
		t.Errorf("goals are %+v", r.Goals)
	}
	r.Steady.P999 = 91
	r.AddSteady(r.Steady)
	if r.Goals[0].Met {
		t.Errorf("goals are %+v", r.Goals)
	}
}

package report

import (
	"strings"
	"testing"
)

// scaled is a report of replays and of several workers.
func scaled() *Report {
	r := &Report{Setup: setup()}
	r.AddReplay([]Sample{
		{Floor, 16, Round{RunsPerSecond: 10_000, P50: 1.5, P99: 4, CommitsPerRun: 1}},
		{Parley, 16, Round{RunsPerSecond: 8_500, P50: 1.7, P99: 5, CommitsPerRun: 0.1, Bytes: map[string]float64{"ingress": 12_000}}},
	})
	s := &Scale{Places: 4, Answer: 100, Levels: []ScaleLevel{{Workers: 1, Clients: 8}, {Workers: 4, Clients: 32}}, Flood: &Flood{
		Workers: 4, Window: 8, Clients: 6, Flooding: 128,
	}}
	for _, shift := range []float64{0.9, 1, 1.2} {
		one := ScaleRound{RunsPerSecond: 38 * shift, P50: 210, P99: 230, Busy: 0.2}
		one.LinearOf(1, one, 1)
		four := ScaleRound{RunsPerSecond: 145 * shift * shift, P50: 220, P99: 260, Busy: 0.6}
		four.LinearOf(4, one, 1)
		s.Levels[0].Rounds, s.Levels[1].Rounds = append(s.Levels[0].Rounds, one), append(s.Levels[1].Rounds, four)
		s.Flood.Rounds = append(s.Flood.Rounds, FloodRound{
			AloneP50: 105, AloneP99: 110, BesideP50: 110, BesideP99: 200 * shift, P99: 200 * shift / 110, Quiet: 50, Flooding: 70,
		})
	}
	r.AddScale(s)
	return r
}

func TestScaleIsHeldAgainstItsGoals(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for _, g := range scaled().Goals {
		got[g.Measure] = g.Met
	}
	want := map[string]bool{
		"replays/s, parley / floor":      true, // 0.85 of 0.8
		"runs/s of 4 workers, of linear": true, // 0.954 of 0.95
		"p99 beside a flood / alone":     true, // 1.82 of 2
	}
	if jsonOf(t, got) != jsonOf(t, want) {
		t.Errorf("goals met: %v\nwant: %v", got, want)
	}
	bad := scaled()
	bad.Scale.Levels[1].Rounds[1].Linear = 0.94
	bad.Scale.Flood.Rounds[1].P99 = 2.1
	bad.AddScale(bad.Scale)
	for _, g := range bad.Goals {
		if g.Met && !strings.HasPrefix(g.Measure, "replays") {
			t.Errorf("%s is met by %v", g.Measure, g.Value)
		}
	}
}

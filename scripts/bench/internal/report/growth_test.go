package report

import (
	"math"
	"strings"
	"testing"
)

func TestGrowthIsHeldAgainstItsGoals(t *testing.T) {
	t.Parallel()
	var r Report
	e := &Erasing{Expired: 1000, Erased: 800, Left: 200, Seconds: 4, Clients: 16, Before: p99s(2, 1, 3), While: p99s(4, 2), After: p99s(1)}
	e.Compare()
	r.AddGrowth(&Growth{Small: 10, Organizations: 3, Erasing: e, Sizes: []GrowthSize{{Runs: 100, Figures: []GrowthFigure{
		NewGrowthFigure("µs a run", 1, []float64{3, 1, 2}, []float64{2, 4, 2.2}, true),
		NewGrowthFigure("p99 ms", 1, []float64{1}, []float64{9}, false),
	}, Others: 0.3}}})
	if len(r.Goals) != 2 || !r.Goals[0].Met || math.Abs(r.Goals[0].Value-1.1) > 1e-9 || !r.Goals[1].Met || r.Goals[1].Value != 1.5 {
		t.Errorf("goals are %+v", r.Goals)
	}
	if e.PerSecond != 200 {
		t.Errorf("%v erased a second", e.PerSecond)
	}
	var out strings.Builder
	if err := r.WriteTables(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"With 100 runs", "µs a run", "9.00", "200 erased a second, 200 left", "30 % of the machine", "µs a run, with 100 runs / with 10"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func p99s(values ...float64) (f Figures) {
	for _, v := range values {
		f.Rounds = append(f.Rounds, Round{P99: v})
	}
	return f
}

func TestSoakIsHeldAgainstItsGoals(t *testing.T) {
	t.Parallel()
	flat, grows := SoakProcess{Process: "ingress"}, SoakProcess{Process: "worker"}
	for n := 0; n <= 100_000; n += 1000 {
		up := int64(n / 1000 % 2) // a heap between two collections
		flat.Samples = append(flat.Samples, SoakSample{Done: n, Bytes: (50 + up) << 20, Files: 40, Goroutines: 80})
		grows.Samples = append(grows.Samples, SoakSample{Done: n, Bytes: 50<<20 + int64(n)*100, Files: 40 + n/1000})
	}
	var r Report
	r.AddSoak(&Soak{Runs: 100_000, Erased: 90_000, Seconds: 9, Kinds: map[string]int{"streams": 5}, Processes: []SoakProcess{flat, grows}})
	if len(r.Goals) != 2 || !r.Goals[0].Met || r.Goals[1].Met {
		t.Errorf("goals are %+v", r.Goals)
	}
	if got := grows.slope(100_000); math.Abs(got-1e6) > 1 {
		t.Errorf("it grows by %v with each 10,000", got)
	}
	if got := flat.slope(100_000); math.Abs(got) > 1<<17 {
		t.Errorf("what is flat grows by %v with each 10,000", got)
	}
	if got := flat.at(100_000, .5); got.Files != 40 || got.Goroutines != 80 || got.Bytes < 50<<20 || got.Bytes > 51<<20 {
		t.Errorf("half way there are %+v", got)
	}
	var out strings.Builder
	if err := r.WriteTables(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "0.95 MiB more with each 10000") || !strings.Contains(out.String(), "(streams 5)") {
		t.Errorf("written is\n%s", out.String())
	}
}

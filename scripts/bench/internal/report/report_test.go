package report

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

func setup() Setup {
	return Setup{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Cores: 2, System: "linux/amd64", Go: "go1.26.0",
		PostgreSQL: map[string]string{"server_version": "17.1", "fsync": "on", "synchronous_commit": "on"}, NATS: "2.15.2",
		SyncMillis: 0.25, Overrides: map[string]string{"LIMIT_USER": "9", "LIMIT_SYSTEM": "10"}, Rounds: 3, Seconds: 2.5, WarmUp: 0.7,
		Stored: map[string]int64{Floor: 10, Parley: 10},
	}
}

func samples() []Sample {
	var out []Sample
	for _, level := range []struct {
		clients          int
		floor, parley    float64 // runs/s
		floorMs, ourMs   float64
		floorOne, ourOne float64 // commits a run
	}{
		{128, 12_000, 6_600, 9, 21, 0.03, 0.061},
		{1, 1_000, 600, 0.9, 1.6, 1, 3},
		{16, 6_000, 2_400, 2.5, 5, 0.2, 0.29},
	} {
		for i := range 3 {
			shift := 1 + float64(i-1)/10
			out = append(out, Sample{Floor, level.clients, Round{
				Runs: 10, RunsPerSecond: level.floor * shift, P50: level.floorMs / shift, P99: 2 * level.floorMs, Max: 30, CommitsPerRun: level.floorOne,
				WALSyncsPerRun: level.floorOne,
				CPU:            map[string]float64{"floor-ingress": 50, "floor-worker": 10, "nats-server": 30, "postgres": 10, "client": 5},
			}}, Sample{Parley, level.clients, Round{
				Others: float64(i) / 8, Runs: 10, RunsPerSecond: level.parley * shift, P50: level.ourMs / shift, P99: 2 * level.ourMs, Max: 30, CommitsPerRun: level.ourOne,
				WALSyncsPerRun: level.ourOne / 2, Bytes: map[string]float64{"ingress": 20_000 * shift, "worker": 25_000},
				CPU: map[string]float64{"ingress": 80, "worker": 60, "nats-server": 35, "postgres": 90, "client": 5.4},
			}})
		}
	}
	return out
}

// reported is a report of run-automation.
func reported(samples []Sample) Report {
	r := Report{Setup: setup()}
	r.AddSamples(samples)
	return r
}

func TestTables(t *testing.T) {
	t.Parallel()
	without := samples()
	for i := range without {
		without[i].Round.CPU = nil
	}
	all, alone := reported(samples()), Report{Setup: setup()}
	fan := &FanOut{Streams: 512}
	fan.Add(FanOutSide{PerSecond: 100_000, P50: 0.5, P99: 2}, FanOutSide{PerSecond: 80_000, P50: 1, P99: 8})
	all.AddWaiting(waiting(), fan)
	alone.AddWaiting(waiting(), nil)
	floor := reported(only(without, Floor))
	for name, r := range map[string]*Report{"both": &all, "floor": &floor, "waiting": &alone, "scale": scaled(), "steady": steadied()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			if err := r.WriteTables(&b); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("tables are not those of %s:\n%s", golden, b.String())
			}
		})
	}
}

func only(all []Sample, side string) []Sample {
	var out []Sample
	for _, s := range all {
		if s.Side == side {
			out = append(out, s)
		}
	}
	return out
}

func TestGoals(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for _, g := range reported(samples()).Goals {
		got[strings.Join([]string{jsonOf(t, g.Clients), g.Measure}, " ")] = g.Met
	}
	want := map[string]bool{
		"1 p50, parley / floor":      true,  // 1.8 of 2
		"16 runs/s, parley / floor":  false, // 0.4 of 0.5
		"16 p99, parley / floor":     true,  // 2 of 2
		"16 commits/run":             true,  // 0.29 of 0.3
		"128 runs/s, parley / floor": true,  // 0.55 of 0.5
		"128 p99, parley / floor":    false, // 2.3 of 2
		"128 commits/run":            false, // 0.061 of 0.05
	}
	if jsonOf(t, got) != jsonOf(t, want) {
		t.Errorf("goals met: %v\nwant: %v", got, want)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestFiguresHaveTheLeastAndTheMost(t *testing.T) {
	t.Parallel()
	got := reported(samples()).Levels[0].Parley
	if got.Min.RunsPerSecond != 540 || got.Median.RunsPerSecond != 600 || got.Max.RunsPerSecond < 659 || got.Max.RunsPerSecond > 661 {
		t.Errorf("%v, %v, %v runs/s", got.Min.RunsPerSecond, got.Median.RunsPerSecond, got.Max.RunsPerSecond)
	}
	if got.Min.Bytes["ingress"] != 18_000 || got.Median.WALSyncsPerRun != 1.5 || got.Min.CPU["client"] != 5.4 {
		t.Errorf("the least is %+v, the median %+v", got.Min, got.Median)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	tests := []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 9, 2}, 3}}
	for _, test := range tests {
		if got := middle(test.values); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.want)
		}
	}
	// Figure by figure, not round by round.
	got := fold([]Round{{RunsPerSecond: 1, P99: 1}, {RunsPerSecond: 2, P99: 9}, {RunsPerSecond: 3, P99: 5}}, middle)
	if got.RunsPerSecond != 2 || got.P99 != 5 {
		t.Errorf("median round is %+v", got)
	}
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "bench.json")
	r := reported(samples())
	if err := r.WriteJSON(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Levels) != 3 || back.Levels[0].Clients != 1 || back.Levels[0].Ratios.Throughput != 0.6 || len(back.Levels[2].Parley.Rounds) != 3 {
		t.Errorf("read back: %s", raw)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"parley/scripts/bench/internal/process"
	"parley/shared/testkit"
)

// TestMain executes the bench's command instead of the tests if the bench has started the test
// binary as a process of the floor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "floor" {
		main()
		return
	}
	os.Exit(m.Run())
}

func quick(t *testing.T) *options {
	t.Helper()
	dir := t.TempDir()
	nats, err := filepath.Abs("../../bin/nats-server")
	if named := os.Getenv("PARLEY_NATS_SERVER"); named != "" || err != nil {
		nats = named
	}
	return &options{JSON: filepath.Join(dir, "bench.json"), Dir: filepath.Join(dir, "servers"), NATS: nats}
}

// quickLoads returns loads that finish in seconds. The values that they measure have no meaning.
func quickLoads() []namedLoad {
	brief := closedLoop{Clients: []int{1, 4}, Rounds: 2, Seconds: 0.15}
	once := closedLoop{Clients: []int{4}, Rounds: 1, Seconds: 0.2}
	return []namedLoad{
		{"answers", &answers{Clients: []int{2, 8}, Each: 2, Rounds: 1}},
		{"streams", &streams{Clients: []int{2}, Each: 2, Rounds: 1, Every: 10 * time.Millisecond}},
		{"inflight", &inflight{Runs: 12, Rounds: 1}},
		{"fairness", &fairness{Flood: 20, Clients: 2, Each: 3, Rounds: 1}},
		{"tools", &tools{Clients: []int{1, 4}, Rounds: 1, Seconds: 0.3}},
		{"automation", &automation{brief}},
		{"waiting", &waitMemory{Waiters: 8, Rounds: 1}},
		{"hooks", &hooks{once}},
		{"replay", &replay{closedLoop: once, Keys: 20}},
		{"scale", &scale{Workers: []int{1, 2}, Slots: 2, Answer: 10 * time.Millisecond, Rounds: 1, Seconds: 0.5}},
		{"code", &code{Calls: 2, Rounds: 2}},
		{"search", &searches{Questions: 1, Passages: 1000}},
		{"growth", &growth{closedLoop: once, Small: 20, Large: 40}},
		{"soak", &soak{Requests: 100, Clients: 2}},
	}
}

func readReport(t *testing.T, o *options) (r report) {
	t.Helper()
	raw, err := os.ReadFile(o.JSON)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// measures lists, for each load, the rows of the report whose value must be above zero.
var measures = map[string][]string{
	"answers":    {"first piece p50 ms", "first piece p99 ms", "answers/s", "answer CPU µs"},
	"streams":    {"answers/s"},
	"inflight":   {"runs in flight", "KiB per run in the worker", "KiB per stream in the ingress"},
	"fairness":   {"first piece p99 ms"},
	"tools":      {"runs/s", "calls/s", "commits/call"},
	"automation": {"runs/s", "run p50 ms", "run p99 ms", "commits/run", "run CPU µs, ingress", "run CPU µs, worker", "run CPU µs, client"},
	"waiting":    {"KiB per waiting request"},
	"hooks":      {"requests/s", "request p50 ms"},
	"replay":     {"replays/s", "replay p99 ms"},
	"scale":      {"runs/s, of linear"},
	"code":       {"call p50 ms"},
	"search":     {"recall@5", "p99 ms"},
	"growth":     {"runs/s", "replays/s", "page p50 ms"},
	"soak":       {"MiB of the ingress, of those after 30 %", "MiB of the worker, of those after 30 %"},
}

func TestBenchMeasuresEverything(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	o := quick(t)
	o.Statements, o.Profile = true, filepath.Join(t.TempDir(), "profiles")
	if err := o.measure(t.Context(), quickLoads()...); err != nil {
		t.Fatal(err)
	}

	r := readReport(t, o)
	for load, names := range measures {
		if _, err := exec.LookPath("bwrap"); err != nil && load == "code" {
			t.Logf("NOT TESTED: calls that run code: %v", err)
			continue
		}
		for _, name := range names {
			at := slices.IndexFunc(r.Rows, func(row row) bool { return row.Load == load && row.Measure == name })
			if at < 0 {
				t.Errorf("%s has no row %s", load, name)
			} else if row := r.Rows[at]; row.Parley.Median <= 0 && load != "waiting" && load != "inflight" { // too small to measure
				t.Errorf("%s: %+v", load, row)
			}
		}
	}

	if r.Setup.PostgreSQL == "" || r.Setup.NATS == "" || len(r.Statements) == 0 {
		t.Errorf("setup is %+v, with %d statements", r.Setup, len(r.Statements))
	}

	if _, err := os.Stat(filepath.Join(o.Profile, "automation", "worker-heap.pprof")); err != nil {
		t.Error(err)
	}
}

// loadFunc is a load that a test defines.
type loadFunc func(ctx context.Context, s *loadEnv) error

func (f loadFunc) Measure(ctx context.Context, s *loadEnv) error { return f(ctx, s) }

// unbuilt returns options for tests that do not start Parley. With them, the bench does not build
// Parley.
func unbuilt(o *options) *options {
	o.Ingress, o.Worker = "ingress", "worker"
	return o
}

func TestReportOutlivesFailure(t *testing.T) {
	t.Parallel()
	o, failure := unbuilt(quick(t)), errors.New("no more")
	measured := loadFunc(func(_ context.Context, s *loadEnv) error {
		s.add("1 client", "runs/s", []float64{2}, []float64{3, 5, 4}, ratioAtLeast(2))
		return nil
	})

	failing := loadFunc(func(context.Context, *loadEnv) error { return failure })
	if err := o.measure(t.Context(), namedLoad{"test", measured}, namedLoad{"test", failing}); !errors.Is(err, failure) {
		t.Errorf("error = %v, want %v", err, failure)
	}

	r := readReport(t, o)
	if len(r.Rows) != 1 || r.Rows[0].Parley.Median != 4 || r.Rows[0].Ratio != 2 || !r.Rows[0].Goal.Met {
		t.Errorf("rows are %+v", r.Rows)
	}

	empty := loadFunc(func(context.Context, *loadEnv) error { return nil })
	if err := o.measure(t.Context(), namedLoad{"test", empty}); err == nil {
		t.Error("a load without figures was accepted")
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"all": nil, "short": {"short"}, "automation": {"automation", "--clients", "1,2", "--json", "x.json"},
		"waiting": {"waiting", "--waiters", "20"},
	} {
		var c commands
		parser, err := kong.New(&c)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.Parse(args)
		if err != nil || parsed.Command() != name {
			t.Errorf("%v: %v", args, err)
		}
		if c.Inflight.Runs != 5000 || c.Replay.Rounds != 3 || c.Dir == "" {
			t.Errorf("%v: defaults are missing: %+v", args, c)
		}
	}

	for _, args := range [][]string{{"--ingress", "main_test.go"}, {"voice"}} {
		parser, err := kong.New(new(commands))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		floor, parley []float64
		goal          *goal
		want          string
	}{
		"ratio at least": {[]float64{10}, []float64{4, 5, 6}, ratioAtLeast(0.5), "ratio ≥ 0.5: met"},
		"ratio missed":   {[]float64{10}, []float64{4}, ratioAtLeast(0.5), "ratio ≥ 0.5: missed"},
		"ratio at most":  {[]float64{10}, []float64{11}, ratioAtMost(1.15), "ratio ≤ 1.15: met"},
		"value":          {nil, []float64{8, 12}, atMost(10), "value ≤ 10: met"},
		"added":          {[]float64{1}, []float64{7}, addsAtMost(5), "added ≤ 5: missed"},
	} {
		s := &loadEnv{bench: &bench{}}
		s.add("", "", tt.floor, tt.parley, tt.goal)
		if got := s.report.Rows[0].Goal.String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	s := &loadEnv{bench: &bench{}, load: "automation"}
	s.report.Setup = setup{Cores: 2, Overrides: map[string]string{"B": "2", "A": "1"}}
	s.add("16 clients", "runs/s", []float64{5316.2}, []float64{900, 1100, 1024}, ratioAtLeast(0.5))
	s.add("16 clients", "commits/run", []float64{0.2321}, []float64{0.235}, nil)
	s.report.Statements = []process.Statement{{Load: "automation", Query: "SELECT 1", Calls: 3, Millis: 12.3}}
	var out bytes.Buffer
	if err := s.report.writeText(&out); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{
		"defaults, except A=1, B=2", "automation  16 clients  runs/s       5316   1024    900-1100  0.19   ratio ≥ 0.5: missed",
		"commits/run  0.232  0.235", "SELECT 1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

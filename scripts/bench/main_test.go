package main

import (
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

	"parley/scripts/bench/internal/report"
	"parley/shared/testkit"
)

// TestMain lets the test binary be the processes that the bench starts from its own binary.
func TestMain(m *testing.M) {
	hidden := []string{"floor-ingress", "floor-worker", "floor-parked", "floor-hooks", "floor-replay", "model", "client"}
	if len(os.Args) > 1 && slices.Contains(hidden, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}

// quick is a whole bench that is over in seconds; its figures mean nothing.
func quick(t *testing.T) *everything {
	t.Helper()
	dir := t.TempDir()
	return &everything{
		options: options{
			JSON: filepath.Join(dir, "bench.json"), Dir: filepath.Join(dir, "servers"), NATS: os.Getenv("PARLEY_NATS_SERVER"),
		},
		automationFlags: automationFlags{
			Clients: []int{1, 4}, Rounds: 2, Seconds: 0.15, WarmUp: 0.05, Sides: []string{report.Floor, report.Parley},
		},
		waitingFlags:  waitingFlags{Waiters: 8, Streams: 6, WaitingRounds: 1},
		codeFlags:     codeFlags{CodeCalls: 2, CodeRounds: 2},
		documentFlags: documentFlags{DocumentPages: 3, DocumentRounds: 1, DocumentPassages: 100, DocumentSearches: 10},
		voiceFlags:    voiceFlags{VoiceTurns: 2, VoiceInterruptions: 1, VoiceSessions: 2, VoiceSeconds: 3},
		hookFlags:     hookFlags{HookClients: []int{1, 16}, HookRounds: 1, HookSeconds: 0.2},
		replayFlags:   replayFlags{ReplayClients: []int{4}, ReplayRounds: 1, ReplaySeconds: 0.2, ReplayKeys: 20},
		steadyFlags:   steadyFlags{SteadyClients: 4, SteadyShare: 0.5, SteadySeconds: 0.5, SteadyPeakSeconds: 0.2},
		scaleFlags: scaleFlags{
			ScaleWorkers: []int{1, 2}, ScalePlaces: 2, ScaleAnswer: 10 * time.Millisecond, ScaleRounds: 1, ScaleSeconds: 0.5, ScaleQuiet: 1,
		},
		growthFlags: growthFlags{
			GrowthSmall: 20, GrowthSizes: []int{40}, GrowthOrganizations: 2, GrowthClients: []int{1}, GrowthRounds: 1, GrowthSeconds: 0.2,
			GrowthLists: 2,
		},
		soakFlags: soakFlags{SoakRuns: 100, SoakAgents: 2, SoakClients: 2, SoakKept: time.Second},
	}
}

// left is what a bench has not removed.
func left(t *testing.T, a *everything) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(a.Dir))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.Name() != "bench.json" && !strings.HasSuffix(e.Name(), ".lock") {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestBenchMeasuresEverything(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	a := quick(t)
	a.Statements, a.Profile = true, filepath.Join(t.TempDir(), "profiles")
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(a.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Levels) != 2 || len(r.Goals) == 0 || len(r.Statements) == 0 {
		t.Fatalf("%d levels, %d goals, %d statements", len(r.Levels), len(r.Goals), len(r.Statements))
	}
	for _, level := range r.Levels {
		for name, side := range map[string]*report.Figures{report.Floor: level.Floor, report.Parley: level.Parley} {
			if side == nil || len(side.Rounds) != a.Rounds || side.Median.RunsPerSecond <= 0 || side.Median.P99 < side.Median.P50 || side.Median.CommitsPerRun <= 0 {
				t.Errorf("%s with %d clients: %+v", name, level.Clients, side)
			}
		}
		if level.Ratios == nil || level.Ratios.Throughput <= 0 {
			t.Errorf("ratios with %d clients: %+v", level.Clients, level.Ratios)
		}
	}
	if r.Setup.PostgreSQL["fsync"] != "on" || r.Setup.PostgreSQL["synchronous_commit"] != "on" || r.Setup.Stored[report.Parley] == 0 {
		t.Errorf("setup is %+v", r.Setup)
	}
	if w := r.Waiting; w == nil || len(w.Parked) != 3 || len(w.Median.Stages) != 4 || w.Median.Answers != a.Waiters+a.Streams {
		t.Errorf("waiting clients: %+v", w)
	}
	if f := r.FanOut; f == nil || f.Streams != a.Streams || len(f.Parley.Rounds) != 1 || f.Parley.Median.PerSecond <= 0 || f.Floor.Median.PerSecond <= 0 ||
		f.Parley.Median.P99 <= 0 {
		t.Errorf("streams: %+v", f)
	}
	checkMore(t, a, r)
	checkCode(t, a, r)
	checkVoice(t, a, r)
	for _, name := range []string{
		"automation/ingress.pprof", "automation/worker.pprof", "replay/worker.pprof", "waiting/ingress-heap.pprof",
		"waiting/ingress-goroutine.pprof", "waiting/ingress-memory.json", "waiting/worker-memory.json",
	} {
		if _, err := os.Stat(filepath.Join(a.Profile, name)); err != nil {
			t.Error(err)
		}
	}
	if names := left(t, a); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

// checkMore looks at what was measured of replays, of arrivals and of several workers, and at what is counted beside.
func checkMore(t *testing.T, a *everything, r report.Report) {
	t.Helper()
	if m := r.Levels[0].Parley.Median; m.WALSyncsPerRun <= 0 || m.Bytes["ingress"] <= 0 || m.Bytes["worker"] <= 0 {
		t.Errorf("syncs and bytes of a run: %+v", m)
	}
	if len(r.Replay) != 1 || r.Replay[0].Ratios == nil || r.Replay[0].Parley.Median.RunsPerSecond <= 0 {
		t.Errorf("replays: %+v", r.Replay)
	}
	if y := r.Steady; y == nil || y.Offered <= 0 || y.Round.P50 <= 0 || y.P999 < y.Round.P99 || y.Round.Max < y.P999 || y.InFlight < 1 ||
		y.Round.CommitsPerRun <= 0 || y.Round.CPU["worker"] <= 0 || y.Peak.RunsPerSecond <= 0 {
		t.Errorf("arrivals: %+v", y)
	}
	if r.Growth == nil || r.Soak == nil {
		t.Errorf("growth %+v, soak %+v", r.Growth, r.Soak)
	}
	s := r.Scale
	if s == nil || len(s.Levels) != 2 || s.Levels[0].Median.Linear != 1 || s.Levels[1].Median.RunsPerSecond <= 0 || s.Flood == nil ||
		s.Flood.Median.BesideP99 <= 0 || s.Flood.Median.Flooding <= 0 || s.Places != a.ScalePlaces {
		t.Errorf("several workers: %+v", s)
	}
}

// checkCode looks at what was measured of calls that run code.
func checkCode(t *testing.T, a *everything, r report.Report) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Logf("NOT TESTED: calls that run code: %v", err)
		return
	}
	if r.Code == nil {
		t.Fatal("calls that run code were not measured")
	}
	for name, side := range map[string]report.CodeFigures{report.Floor: r.Code.Floor, "cold": r.Code.Cold, "warm": r.Code.Warm} {
		if len(side.Rounds) != a.CodeRounds || side.Median.P50 <= 0 || side.Median.P99 < side.Median.P50 {
			t.Errorf("%s calls that run code: %+v", name, side)
		}
	}
	goals := 0
	for _, g := range r.Goals {
		if strings.HasPrefix(g.Measure, "code, ") {
			goals++
		}
	}
	if goals != 2 {
		t.Errorf("%d goals of calls that run code: %+v", goals, r.Goals)
	}
}

// checkVoice looks at what was measured of conversations.
func checkVoice(t *testing.T, a *everything, r report.Report) {
	t.Helper()
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Logf("NOT TESTED: conversations: %v", err)
		return
	}
	v := r.Voice
	if v == nil || v.Turns != a.VoiceTurns || v.Behind.P50 <= 0 || v.Added.P50 >= v.Behind.P50 || v.Added.Max < v.Added.P99 || v.Floor.P50 <= 0 ||
		v.Answers < a.VoiceSessions {
		t.Errorf("conversations: %+v", v)
	}
}

func TestBenchCleansUpWhenInterrupted(t *testing.T) {
	t.Parallel()
	a := &automation{}
	whole := quick(t)
	a.options, a.automationFlags = whole.options, whole.automationFlags
	a.Sides, a.Seconds = []string{report.Floor}, 60
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("interrupted")
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := os.Stat(filepath.Join(a.Dir, "floor-worker.log")); err == nil { // PostgreSQL, NATS and the floor run
				cancel(reason)
				return
			}
		}
	}()
	if err := a.Run(ctx); !errors.Is(err, reason) {
		t.Errorf("error is %v", err)
	}
	if names := left(t, whole); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
	if _, err := os.Stat(a.JSON); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a report was written: %v", err)
	}
}

// part is a measurement of a test.
type part func(r *report.Report) error

func (p part) measure(_ context.Context, _ *options, r *report.Report) error { return p(r) }

// What was measured before a part failed is told.
func TestTheReportOutlivesAFailure(t *testing.T) {
	t.Parallel()
	o, failure := quick(t).options, errors.New("no more")
	measured := part(func(r *report.Report) error {
		r.Setup.Cores = 7
		return nil
	})
	failing := part(func(*report.Report) error { return failure })
	if err := o.run(t.Context(), failing); !errors.Is(err, failure) {
		t.Errorf("the first one: %v", err)
	}
	if _, err := os.Stat(o.JSON); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a report of nothing was written: %v", err)
	}
	if err := o.run(t.Context(), measured, failing); !errors.Is(err, failure) {
		t.Errorf("the second one: %v", err)
	}
	raw, err := os.ReadFile(o.JSON)
	var r report.Report
	if err != nil || json.Unmarshal(raw, &r) != nil || r.Setup.Cores != 7 {
		t.Errorf("%s, %v", raw, err)
	}
}

// Not in parallel: a process that another test is just starting holds every open file for a moment, the lock as well.
func TestOneBenchAtATime(t *testing.T) { //nolint:paralleltest // as said
	a := quick(t)
	release, err := a.prepare()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.prepare(); err == nil {
		t.Error("a second bench was let in")
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	release, err = a.prepare()
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*everything){
		"no round":          func(a *everything) { a.Rounds = 0 },
		"no time":           func(a *everything) { a.Seconds = 0 },
		"negative warm-up":  func(a *everything) { a.WarmUp = -1 },
		"no clients":        func(a *everything) { a.Clients = nil },
		"zero clients":      func(a *everything) { a.Clients = []int{1, 0} },
		"one binary of two": func(a *everything) { a.Ingress = "ingress" },
		"no waiter":         func(a *everything) { a.Waiters = 0 },
		"streams below 0":   func(a *everything) { a.Streams = -1 },
		"no waiting round":  func(a *everything) { a.WaitingRounds = 0 },
		"no turn":           func(a *everything) { a.VoiceTurns = 0 },
		"no time to speak":  func(a *everything) { a.VoiceSeconds = 0 },
		"nobody asks again": func(a *everything) { a.ReplayClients = []int{0} },
		"no share":          func(a *everything) { a.SteadyShare = 0 },
		"nobody at peak":    func(a *everything) { a.SteadyClients = 0 },
		"no key":            func(a *everything) { a.ReplayKeys = 0 },
		"falling workers":   func(a *everything) { a.ScaleWorkers = []int{2, 1} },
		"no place":          func(a *everything) { a.ScalePlaces = 0 },
		"no call":           func(a *everything) { a.CodeCalls = 0 },
		"no code round":     func(a *everything) { a.CodeRounds = 0 },
		"pause below 0":     func(a *everything) { a.CodePause = -1 },
		"a foreign profile": func(a *everything) { a.Ingress, a.Worker, a.Profile = "ingress", "worker", "profiles" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := quick(t)
			change(a)
			if a.Validate() == nil {
				t.Error("accepted")
			}
		})
	}
	if err := quick(t).Validate(); err != nil {
		t.Error(err)
	}
}

func TestTheShortFormIsAccepted(t *testing.T) {
	t.Parallel()
	for _, part := range shortParts() {
		flags, ok := part.(interface{ check() error })
		if !ok {
			t.Fatalf("%T has no check", part)
		}
		if err := flags.check(); err != nil {
			t.Errorf("%T: %v", part, err)
		}
	}
}

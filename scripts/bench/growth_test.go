package main

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"parley/scripts/bench/internal/report"
	"parley/shared/testkit"
)

// A few runs, through everything; the figures mean nothing.
func TestGrowthAndSoak(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	o := quick(t).options
	grows := growthFlags{
		GrowthSmall: 40, GrowthSizes: []int{200, 500}, GrowthOrganizations: 5, GrowthClients: []int{1, 4}, GrowthRounds: 1, GrowthSeconds: 0.2,
		GrowthLists: 3, GrowthExpired: 1500,
	}
	goesOn := soakFlags{SoakRuns: 1500, SoakAgents: 3, SoakClients: 8, SoakKept: time.Second}
	if err := o.run(t.Context(), &grows, &goesOn); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(o.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var got report.Report
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	g := got.Growth
	if g == nil || len(g.Sizes) != 2 || g.Erasing == nil {
		t.Fatalf("growth: %+v", g)
	}
	for _, size := range g.Sizes {
		for _, f := range size.Figures {
			if f.Small.Median <= 0 || f.Large.Median <= 0 || f.Ratio <= 0 || len(f.Large.Rounds) != 1 {
				t.Errorf("with %d runs: %+v", size.Runs, f)
			}
		}
	}
	if e := g.Erasing; e.Left != 0 || e.Erased == 0 || e.PerSecond <= 0 || e.While.Median.P99 <= 0 || e.Before.Median.P99 <= 0 || e.After.Median.P99 <= 0 {
		t.Errorf("erasing: %+v", e)
	}
	s := got.Soak
	if s == nil || s.Runs != goesOn.SoakRuns || len(s.Processes) != 2 {
		t.Fatalf("soak: %+v", s)
	}
	for _, p := range s.Processes {
		last := p.Samples[len(p.Samples)-1]
		if last.Done != s.Runs || last.Bytes <= 0 || last.Files == 0 || last.Goroutines == 0 {
			t.Errorf("soak: %s: %+v", p.Process, last)
		}
	}
	if names := left(t, &everything{options: o}); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestValidateGrowthAndSoak(t *testing.T) {
	t.Parallel()
	grows := growthFlags{
		GrowthSmall: 20, GrowthSizes: []int{40, 80}, GrowthOrganizations: 1, GrowthClients: []int{1}, GrowthRounds: 1, GrowthSeconds: 1, GrowthLists: 1,
	}
	goesOn := soakFlags{SoakRuns: 100, SoakAgents: 1, SoakClients: 1, SoakKept: 1}
	for name, change := range map[string]func(*growth, *soak){
		"fewer than a page":   func(g *growth, _ *soak) { g.GrowthSmall = 19 },
		"no size":             func(g *growth, _ *soak) { g.GrowthSizes = nil },
		"falling sizes":       func(g *growth, _ *soak) { g.GrowthSizes = []int{80, 40} },
		"no growth":           func(g *growth, _ *soak) { g.GrowthSizes = []int{20} },
		"no organization":     func(g *growth, _ *soak) { g.GrowthOrganizations = 0 },
		"nobody asks":         func(g *growth, _ *soak) { g.GrowthClients = []int{0} },
		"no round":            func(g *growth, _ *soak) { g.GrowthRounds = 0 },
		"expired below 0":     func(g *growth, _ *soak) { g.GrowthExpired = -1 },
		"too few for samples": func(_ *growth, s *soak) { s.SoakRuns = 99 },
		"no agent":            func(_ *growth, s *soak) { s.SoakAgents = 0 },
		"no client":           func(_ *growth, s *soak) { s.SoakClients = 0 },
		"nothing kept":        func(_ *growth, s *soak) { s.SoakKept = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, s := &growth{growthFlags: grows}, &soak{soakFlags: goesOn}
			if err := g.Validate(); err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			change(g, s)
			if g.Validate() == nil && s.Validate() == nil {
				t.Error("accepted")
			}
		})
	}
}

package main

import (
	"bytes"
	"strings"
	"testing"

	"parley/scripts/bench/internal/process"
)

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
		"defaults, except A=1, B=2", "automation  16 clients  runs/s               5316   1024    900-1100  0.19   ratio ≥ 0.5: missed",
		"commits/run          0.232  0.235", "SELECT 1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

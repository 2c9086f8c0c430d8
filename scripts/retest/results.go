package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// maxLogLines bounds the number of lines in the log of a failure. The last lines are kept.
const maxLogLines = 400

// event is one line in the output of "go test -json".
type event struct {
	Action      string  `json:"Action"`
	Package     string  `json:"Package"`
	Test        string  `json:"Test"`
	Elapsed     float64 `json:"Elapsed"` // seconds; only in the final event of a test or package
	Output      string  `json:"Output"`
	FailedBuild string  `json:"FailedBuild"`
}

// results contains the outcomes of one run of the tests, by package path.
type results struct {
	packages map[string]*packageResult
	timing   []timing
}

// timing is the duration of one package or one test.
type timing struct {
	name, test string
	seconds    float64
}

// packageResult is the outcome of one package. It contains only top-level tests, because a subtest
// cannot be run without its parent. The output of a subtest belongs to its top-level test.
type packageResult struct {
	name        string
	fails       bool
	brokenBuild bool
	tests       map[string]string   // the outcome of each test: "pass", "skip" or "fail"; "run" if the test did not finish
	output      map[string][]string // output lines by test; the name "" stands for the package itself
}

// readResults reads the test events of one run from the beginning of a file.
func readResults(from io.ReadSeeker) (*results, error) {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading test events: %w", err)
	}

	res := &results{packages: map[string]*packageResult{}}
	for decoder := json.NewDecoder(from); ; {
		var e event
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			return res, nil
		case err != nil:
			return nil, fmt.Errorf("reading test events: %w", err)
		}
		if e.Package != "" {
			res.add(e)
		}
	}
}

// add adds one event to the results.
func (r *results) add(e event) {
	p := r.packages[e.Package]
	if p == nil {
		p = &packageResult{name: e.Package, tests: map[string]string{}, output: map[string][]string{}}
		r.packages[e.Package] = p
	}

	top, _, isSubtest := strings.Cut(e.Test, "/")
	switch e.Action {
	case "output":
		p.output[top] = append(p.output[top], e.Output)
	case "run", "pass", "fail", "skip":
		if e.Action != "run" && !isSubtest {
			r.timing = append(r.timing, timing{e.Package, e.Test, e.Elapsed})
		}
		switch {
		case e.Test == "":
			p.fails = e.Action == "fail"
			p.brokenBuild = e.FailedBuild != ""
		case !isSubtest:
			p.tests[top] = e.Action
		}
	}
}

// These constants are the limits of the method slowest.
const (
	slowPackages = 15
	slowTests    = 25
	fewPackages  = 3
)

// slowest lists the slowest packages and tests. It lists none if only a few packages were tested.
func (r *results) slowest() string {
	if len(r.packages) <= fewPackages {
		return ""
	}

	slices.SortStableFunc(r.timing, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	var packages, tests []string
	for _, t := range r.timing {
		line := strings.TrimSpace(fmt.Sprintf("slow %6.1f s  %s %s", t.seconds, t.name, t.test))
		switch {
		case t.test == "" && len(packages) < slowPackages:
			packages = append(packages, line)
		case t.test != "" && len(tests) < slowTests:
			tests = append(tests, line)
		}
	}
	return strings.Join(append(packages, tests...), "\n") + "\n"
}

// failed returns the packages that failed, ordered by name.
func (r *results) failed() []*packageResult {
	var out []*packageResult
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		if p := r.packages[name]; p.fails {
			out = append(out, p)
		}
	}
	return out
}

// inherit adds to the tests of this run the tests that passed in an earlier run of the package.
func (p *packageResult) inherit(earlier *packageResult) {
	for name, outcome := range earlier.tests {
		if _, ran := p.tests[name]; !ran && outcome != "fail" && outcome != "run" {
			p.tests[name] = outcome
		}
	}
}

// failedNames returns the tests that failed or did not finish. It returns none if the package
// failed although all of its tests passed.
func (p *packageResult) failedNames() []string { return p.with("fail", "run") }

// skipFlags returns the flags with which a rerun omits the tests that have passed. The rerun
// includes tests that did not start because another test crashed.
func (p *packageResult) skipFlags() []string {
	passed := p.with("pass", "skip")
	if len(passed) == 0 {
		return nil
	}
	return []string{"-skip", skipPattern(passed)}
}

// with returns the tests that have one of the given outcomes, ordered by name.
func (p *packageResult) with(outcomes ...string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		if slices.Contains(outcomes, p.tests[name]) {
			names = append(names, name)
		}
	}
	return names
}

// log returns the output of the failed tests, followed by the output of the package itself.
func (p *packageResult) log() string {
	var lines []string
	for _, name := range append(p.failedNames(), "") {
		lines = append(lines, p.output[name]...)
	}
	if cut := len(lines) - maxLogLines; cut > 0 {
		lines = append([]string{fmt.Sprintf("(%d lines omitted)\n", cut)}, lines[cut:]...)
	}
	return strings.Join(lines, "")
}

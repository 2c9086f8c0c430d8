package python

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/workers/internal/sandbox"
)

// probeLimits contains the limits of the first program. They are generous because matplotlib
// examines all fonts.
var probeLimits = sandbox.Limits{
	CPU: 50 * time.Second, Wall: 50 * time.Second, Memory: 512 << 20, Processes: 64, Files: 64 << 20, FileCount: 10_000, Output: 1 << 20,
}

// knownPackages lists the packages that Packages reports.
var knownPackages = []string{
	"python", "numpy", "pandas", "matplotlib", "scipy", "sympy", "scikit-learn", "statsmodels", "seaborn", "networkx", "pillow",
	"openpyxl", "xlsxwriter", "lxml", "beautifulsoup4", "pyyaml", "requests", "tabulate",
}

// probe runs the first program, which includes the runner's source code. The program compiles the
// runner, so that later starts take a third less time. The program also creates matplotlib's list
// of fonts, so that the first plot in a sandbox takes one second less.
//
// probe sets i.command and i.packages. It must be called before the interpreter is used by several
// goroutines.
func (i *Interpreter) probe(path string) error {
	ctx, cancel := context.WithTimeout(i.ctx, openWithin)
	defer cancel()
	files, err := readSources()
	if err != nil {
		return err
	}
	written := make([]sandbox.Data, 0, len(files))
	program := Program{Files: files}
	for _, f := range files {
		written = append(written, sandbox.Data{Path: home + "/" + f.Name, Content: f.Content})
		if f.Name == "parley_probe.py" {
			program.Code = string(f.Content)
		}
	}

	// The first program has its own limits and runs the runner from its source code. Later programs
	// run the compiled runner with the configured limits.
	limits := i.limits
	i.limits = probeLimits
	i.command = command(path, "parley_runner.py", probeLimits, written)

	b, err := i.start(ctx, false)
	if err != nil {
		return err
	}
	outcome, err := i.exchange(ctx, b, program)
	if err != nil {
		return err
	}

	if outcome.Failed() {
		return fmt.Errorf("the test program exited with %d %s: %s%s%s",
			outcome.ExitCode, outcome.Limit, outcome.Traceback, outcome.Stderr, complaint(b))
	}
	i.limits = limits
	return i.learn(path, outcome)
}

// learn stores the results of the first program: the available packages, and the files that later
// sandboxes use. It fails if the program did not return the compiled runner.
func (i *Interpreter) learn(path string, outcome Outcome) error {
	data := make([]sandbox.Data, 0, len(outcome.Files))
	runner := false
	for _, f := range outcome.Files {
		if f.Name == "parley_probe.pyc" {
			continue
		}
		runner = runner || f.Name == "parley_runner.pyc"
		data = append(data, sandbox.Data{Path: home + "/" + f.Name, Content: f.Content})
	}
	if !runner {
		return fmt.Errorf("unexpected result of the test program: %s", outcome.Stderr)
	}

	i.command = command(path, "parley_runner.pyc", i.limits, data)
	lines := bufio.NewScanner(strings.NewReader(outcome.Stdout))
	for lines.Scan() {
		name, version, found := strings.Cut(lines.Text(), " ")
		if found && slices.Contains(knownPackages, name) {
			i.packages = append(i.packages, Package{Name: name, Version: version})
		}
	}
	slices.SortFunc(i.packages, func(a, b Package) int {
		return slices.Index(knownPackages, a.Name) - slices.Index(knownPackages, b.Name)
	})
	return nil
}

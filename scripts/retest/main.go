// Command retest runs Go tests and reruns the failed ones, at most twice.
//
// A test that fails in every run makes retest fail. A test that passes in a rerun is flaky: it does
// not make retest fail, and its name and the log of its failure are appended to the file that
// -flaky names. After the first run, retest prints the slowest packages and tests.
//
//	retest -flaky FILE -packages "PACKAGES" -- gotestsum FLAGS -- GO_TEST_FLAGS
//
// The packages are appended to the command. The command must write test events to the file that the
// environment variable GOTESTSUM_JSONFILE names. A rerun tests one package at a time. It uses the
// flag -skip to omit those tests of the package that have passed. A package is not rerun if it does
// not compile, or if it fails although its tests pass, for example because of a check in TestMain.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
)

// maxReruns is the maximum number of reruns of a failed package.
const maxReruns = 2

func main() {
	flaky := flag.String("flaky", "", "file to which flaky tests are appended")
	packages := flag.String("packages", "", "packages to test, separated by spaces")
	flag.Parse()
	if *flaky == "" || *packages == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()

	r := rerunner{command: flag.Args(), out: os.Stdout}
	code, report, err := r.run(ctx, strings.Fields(*packages))
	if err == nil && report != "" {
		err = appendTo(*flaky, report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "retest:", err)
		code = max(code, 1)
	}

	cancel()
	os.Exit(code) //nolint:gocritic // cancel has run
}

// rerunner runs the test command, and runs it again for packages that failed.
type rerunner struct {
	command []string
	out     io.Writer
}

// run tests the packages. It returns the exit code, and a report with the flaky tests and the logs
// of their failures.
func (r rerunner) run(ctx context.Context, packages []string) (code int, report string, err error) {
	res, code, err := r.runOnce(ctx, packages)
	if err == nil {
		_, _ = io.WriteString(r.out, res.slowest()) // an error here must not change the exit code
	}
	if err != nil || code == 0 {
		return code, "", err
	}

	failed := res.failed()
	if len(failed) == 0 {
		return code, "", nil // the command has failed, but no test has
	}

	var flaky strings.Builder
	for _, p := range failed {
		log, err := r.rerunFailed(ctx, p)
		if err != nil {
			return code, flaky.String(), err
		}
		if log == "" {
			return code, flaky.String(), nil // a test has failed in every run, so more reruns cannot change the exit code
		}
		flaky.WriteString(log)
	}
	return 0, flaky.String(), nil
}

// rerunFailed reruns the failed tests of a package. It returns a report about the flaky tests. The
// report is empty if a test failed each time.
func (r rerunner) rerunFailed(ctx context.Context, p *packageResult) (report string, err error) {
	var log strings.Builder
	for n := 2; n <= maxReruns+1; n++ {
		if err := ctx.Err(); err != nil {
			return "", fmt.Errorf("rerunning %s: %w", p.name, err)
		}
		if p.brokenBuild {
			return "", nil
		}
		if len(p.failedNames()) == 0 {
			fmt.Fprintf(r.out, "\n=== no rerun of %s: the package fails, but its tests pass\n", p.name)
			return "", nil
		}
		fmt.Fprintf(r.out, "\n=== rerun %d of %s: %s\n", n-1, p.name, strings.Join(p.failedNames(), " "))
		fmt.Fprintf(&log, "FLAKY %s: %s\n%s\n", p.name, strings.Join(p.failedNames(), " "), p.log())
		res, code, err := r.runOnce(ctx, []string{p.name}, p.skipFlags()...)
		if err != nil {
			return "", err
		}
		if code == 0 {
			return log.String(), nil
		}
		if next := res.packages[p.name]; next != nil {
			next.inherit(p)
			p = next
		}
	}
	return "", nil
}

// runOnce runs the command once and returns the results in the test events that the command wrote.
// code is the exit code of the command. An error means that the command could not be started or
// that its events could not be read.
func (r rerunner) runOnce(ctx context.Context, packages []string, flags ...string) (res *results, code int, err error) {
	events, err := os.CreateTemp("", "retest-*.json")
	if err != nil {
		return nil, 1, fmt.Errorf("creating the event file: %w", err)
	}
	defer func() {
		_ = events.Close()
		_ = os.Remove(events.Name())
	}()

	args := append(append(r.command[1:len(r.command):len(r.command)], flags...), packages...)
	cmd := exec.CommandContext(ctx, r.command[0], args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "GOTESTSUM_JSONFILE="+events.Name())
	cmd.Stdout, cmd.Stderr = r.out, r.out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, 1, fmt.Errorf("starting the tests: %w", err)
	}
	if exit != nil {
		code = max(exit.ExitCode(), 1)
	}

	res, err = readResults(events)
	return res, code, err
}

// skipPattern returns a regular expression that matches exactly the named tests.
func skipPattern(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

// appendTo appends a text to a file, which it creates if it is missing.
func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("reporting flaky tests: %w", err)
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

package testkit

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/shared/lifecycle/childproc"
)

const (
	// pollInterval is the interval between two checks whether a process is ready.
	pollInterval = 10 * time.Millisecond
	// defaultReadyWithin is long, because machines that run many tests are slow.
	defaultReadyWithin = 60 * time.Second
	// logShown is the maximum number of bytes of a process's output that a failed test shows.
	logShown = 64 << 10
)

// Command describes a process to start, and how to check that the process is ready.
type Command struct {
	Name string   // name in messages and for the log file; empty: the program's name
	Path string   // path of the program, for example from BuildBinary
	Args []string // arguments after the program's name
	Env  []string // "KEY=value" pairs in addition to this process's environment
	Dir  string   // working directory; empty: this process's

	// ReadyLine is a part of a line that the process writes when it is ready.
	ReadyLine string
	// ReadyURL is a URL at which GET returns 200 when the process is ready, for example
	// http://127.0.0.1:8080/readyz.
	ReadyURL string
	// ReadyWithin is the maximum time to become ready on an idle machine. 0 means 60 s.
	ReadyWithin time.Duration
}

// Process is a real process that a test has started. Its methods must be called in the test's
// goroutine, because they may fail the test.
type Process struct {
	tb      testing.TB
	command Command
	mark    string
	logPath string
	child   *childproc.Process // the current start
}

var processes atomic.Int64

// StartProcess starts the command and returns when the process is ready. At the end of the test,
// the process and all processes that it has started are killed, and the output is shown if the test
// failed.
func StartProcess(tb testing.TB, command Command) *Process {
	tb.Helper()
	own, err := ownResources()
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}

	if command.Name == "" {
		command.Name = filepath.Base(command.Path)
	}

	p := &Process{
		tb: tb, command: command,
		mark:    own.mark + "-" + strconv.FormatInt(processes.Add(1), 10),
		logPath: filepath.Join(tempDir(tb, command.Name), "output"),
	}

	tb.Cleanup(p.cleanUp)
	p.start()
	return p
}

// start starts the command in a new session and returns when the process is ready. It fails the
// test if the process does not start or does not become ready in time.
func (p *Process) start() {
	p.tb.Helper()
	child, err := childproc.Program{
		Name: p.command.Name, Path: p.command.Path, Args: p.command.Args, Dir: p.command.Dir, Log: p.logPath,
		Env: slices.Concat(os.Environ(), p.command.Env, []string{p.mark}),
	}.Start(p.tb.Context())
	if err != nil {
		p.tb.Fatalf("testkit: %v", err)
	}
	p.child = child
	p.awaitReady()
}

func (p *Process) awaitReady() {
	p.tb.Helper()
	within := p.command.ReadyWithin
	if within == 0 {
		within = defaultReadyWithin
	}
	began := time.Now()
	ready := await(p.tb, within, func() bool { return p.child.Ended() || p.ready() })
	if p.child.Ended() {
		p.tb.Fatalf("testkit: %s ended while starting: %v", p.command.Name, p.child.Err())
	}
	if !ready {
		p.tb.Fatalf("testkit: %s is not ready after %s", p.command.Name, time.Since(began).Round(time.Millisecond))
	}
}

func (p *Process) ready() bool {
	if line := p.command.ReadyLine; line != "" && !bytes.Contains(p.child.Output(), []byte(line)) {
		return false
	}
	return p.command.ReadyURL == "" || answers(p.tb.Context(), p.command.ReadyURL)
}

// answers reports whether a GET request to the URL returns 200.
func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// await polls until the function done returns true. It returns false when Late reports that the
// time is over, or when the test ends.
func await(tb testing.TB, within time.Duration, done func() bool) bool {
	tb.Helper()
	began := time.Now()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !done() {
		if Late(began, within) {
			return false
		}
		select {
		case <-tick.C:
		case <-tb.Context().Done():
			return false
		}
	}

	return true
}

// Output returns the output from all starts of the process.
func (p *Process) Output() string {
	content, err := os.ReadFile(p.logPath)
	if err != nil {
		return ""
	}
	return string(content)
}

// PID is the process's id.
func (p *Process) PID() int { return p.child.PID() }

// Done is closed when the process has ended. Restart creates a new channel.
func (p *Process) Done() <-chan struct{} { return p.child.Done() }

// Kill9 ends the process like a crash and returns when it is gone. The processes that it has
// started keep running.
func (p *Process) Kill9() {
	p.tb.Helper()
	p.signal(syscall.SIGKILL)
	<-p.child.Done()
}

// Stop freezes the process until Cont.
func (p *Process) Stop() {
	p.tb.Helper()
	p.signal(syscall.SIGSTOP)
}

// Cont continues a frozen process.
func (p *Process) Cont() {
	p.tb.Helper()
	p.signal(syscall.SIGCONT)
}

// Term sends SIGTERM. Wait returns the result.
func (p *Process) Term() {
	p.tb.Helper()
	p.signal(syscall.SIGTERM)
}

// Wait waits for the end of the process. It returns nil if the status was 0. It fails the test if
// the process does not end in time. The time limit is the given duration, or longer on a busy
// machine.
func (p *Process) Wait(within time.Duration) error {
	p.tb.Helper()
	began := time.Now()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !Late(began, within) {
		select {
		case <-p.child.Done():
			return p.child.Err()
		case <-tick.C:
		}
	}
	p.tb.Fatalf("testkit: %s has not ended after %s", p.command.Name, time.Since(began).Round(time.Millisecond))
	return nil
}

// Restart starts the same command again and returns when it is ready. The process must have ended.
func (p *Process) Restart() {
	p.tb.Helper()
	if !p.child.Ended() {
		p.tb.Fatalf("testkit: cannot restart %s, because the process is still running", p.command.Name)
	}
	p.start()
}

func (p *Process) signal(signal syscall.Signal) {
	p.tb.Helper()
	if err := p.child.Signal(signal); err != nil {
		p.tb.Fatalf("testkit: sending %s to %s: %v", signal, p.command.Name, err)
	}
}

func (p *Process) cleanUp() {
	if p.child != nil && !p.child.Ended() {
		_ = syscall.Kill(-p.child.PID(), syscall.SIGKILL) // kills the whole group: the process leads it and is not reaped yet
		<-p.child.Done()
	}
	killMarked(p.mark)
	if p.tb.Failed() {
		output := []byte(p.Output())
		if cut := len(output) - logShown; cut > 0 {
			output = append([]byte("…"), output[cut:]...)
		}
		p.tb.Logf("output of %s:\n%s", p.command.Name, output)
	}
}

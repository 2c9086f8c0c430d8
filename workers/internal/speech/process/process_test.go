package process_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/workers/internal/speech/process"
)

func start(t *testing.T, command process.Command, args ...string) *process.Process {
	t.Helper()
	path, err := exec.LookPath(args[0])
	if err != nil {
		t.Fatal(err)
	}
	command.Path, command.Args = path, args[1:]
	if command.Max == 0 {
		command.Max = 1 << 20
	}
	if command.CPU == 0 {
		command.CPU = 10 * time.Second
	}
	if command.Bytes == 0 {
		command.Bytes = 256 << 20
	}
	p, err := process.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func everything(t *testing.T, p *process.Process) string {
	t.Helper()
	said, err := io.ReadAll(p.Reader(t.Context()))
	if err != nil {
		t.Errorf("reading: %v", err)
	}
	return string(said)
}

func TestAProgramGetsNothingOfThisProcess(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "hunter2")
	p := start(t, process.Command{}, "sh", "-c", "env; pwd; cat")
	if _, err := io.WriteString(p.Stdin, "said\n"); err != nil {
		t.Fatal(err)
	}
	_ = p.Stdin.Close()
	said := everything(t, p)
	if strings.Contains(said, "hunter2") || !strings.Contains(said, "LANG=C.UTF-8\n") || !strings.HasSuffix(said, "/\nsaid\n") {
		t.Errorf("the process got %q", said)
	}
	if err := p.Fault(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(said) {
		if name, _, is := strings.Cut(line, "="); is && name != "LANG" && name != "PWD" && name != "_" && name != "SHLVL" && name != "OLDPWD" { // set by the shell itself
			t.Errorf("the process got the variable %s", line)
		}
	}
}

func TestAProgramIsKilledWithItsGroup(t *testing.T) {
	t.Parallel()
	p := start(t, process.Command{}, "sh", "-c", "sleep 1000 & echo $!; wait")
	first := make([]byte, 20)
	n, err := p.Reader(t.Context()).Read(first)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(first[:n])))
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	for deadline := time.Now().Add(5 * time.Second); alive(child); {
		if time.Now().After(deadline) {
			t.Fatal("a process that the program started is still alive")
		}
		<-time.After(time.Millisecond)
	}
	p.Kill() // the second call has no effect
	if err := p.Fault(); err == nil {
		t.Error("a program that was killed ended well")
	}
}

// alive reports whether a process is running. It returns false for a process that has ended but has
// not been reaped.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ") || err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command process.Command
		script  string
		wall    time.Duration
		fault   string
	}{
		"output":      {process.Command{Max: 1000}, "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaa; done", time.Minute, "output is too large"},
		"time":        {process.Command{}, "exec sleep 1000", 100 * time.Millisecond, "took too long"},
		"files":       {process.Command{}, "cat; cd $(mktemp -d) && echo a > a", time.Minute, "file size limit exceeded"},
		"processor":   {process.Command{CPU: time.Second}, "cat; while :; do :; done", time.Minute, "signal: killed"},
		"a complaint": {process.Command{}, "echo oh >&2; exit 3", time.Minute, "exit status 3: oh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, c.command, "sh", "-c", c.script)
			defer p.Limit(c.wall)()
			_ = p.Stdin.Close()
			_, _ = io.Copy(io.Discard, p.Reader(t.Context()))
			<-p.Ended()
			if err := p.Fault(); err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%v, want %s", err, c.fault)
			}
		})
	}
}

func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := start(t, process.Command{}, "sleep", "1000")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Reader(ctx).Read(make([]byte, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	t.Parallel()
	if _, err := process.Start(process.Command{Path: "/none"}); err == nil {
		t.Error("started")
	}
}

//go:build linux

package sandboxtest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestControls makes the attempts without isolation, where each must succeed. An attempt that fails
// without isolation could not show that a sandbox isolates.
func TestControls(t *testing.T) {
	h := newHost(t)
	t.Setenv("PARLEY_CANARY", h.canary)
	attempts := slices.Concat(deniedCalls(), deniedArguments(), deniedSockets(), deniedOnHost(t, h))
	for i, a := range attempts {
		if a.control != nil {
			attempts[i].args = a.control
		}
	}
	found := unisolated(t, attempts)
	bare := privileged()
	for _, a := range attempts { //nolint:paralleltest // the objects already exist
		t.Run(a.name, func(t *testing.T) {
			r, ok := found[a.name]
			switch {
			case !ok:
				t.Fatal("the attempt was not made")
			case r.Broken != "", r.Signal == int(syscall.SIGALRM):
				t.Fatalf("the attempt is broken: %s", r)
			case a.escaped(r) != nil:
				return
			case a.needs == optional, a.needs == privileges && bare != nil:
				t.Logf("this host refuses it as well (%s), so its refusal in a sandbox says less here", r)
			default:
				t.Errorf("was refused without a sandbox: %s", r)
			}
		})
	}
}

// TestControlNeighbours lets two programs search for each other without isolation. Each program
// must find all traces of the other program.
func TestControlNeighbours(t *testing.T) {
	t.Parallel()
	mine, others, folder := newMark(), newMark(), t.TempDir()
	first := startProgram(t, neighbourProgram, mine, others, folder)
	second := startProgram(t, neighbourProgram, others, mine, folder)
	reported := meet(t, first, second)
	for _, found := range reported {
		if want := []string{folder, "abstract socket", "shared memory", "processes"}; !slices.Equal(found, want) {
			t.Errorf("traces found without sandboxes = %q, want %q", found, want)
		}
	}
	for _, p := range []program{first, second} { // end both programs, which removes their shared memory
		_, _ = io.WriteString(p.stdin, "end\n")
		_, _ = io.ReadAll(p.stdout)
	}
}

// TestControlMarks searches for live processes in the same way as the suite searches for processes
// that were left.
func TestControlMarks(t *testing.T) {
	t.Parallel()
	mark := newMark()
	p := startProgram(t, lingering(mark)+"sys.stdin.read()\nos.kill(0, signal.SIGKILL)")
	if said, err := bufio.NewReader(p.stdout).ReadString('\n'); said != "ready\n" {
		t.Fatalf("the program says %q: %v", said, err)
	}
	found := gone(t.Context(), func() []process { return marked(mark) })
	if len(found) < 7 {
		t.Errorf("of seven processes are found: %v", found)
	}
	below := descendants(os.Getpid(), nil)
	if !slices.ContainsFunc(below, func(p process) bool { return strings.Contains(p.name, mark) }) {
		t.Errorf("no process of the program is among the descendants of this process: %v", below)
	}
	for _, one := range found {
		if another, err := os.FindProcess(one.pid); err == nil {
			_ = another.Kill()
		}
	}
}

// TestGeneratedPrograms runs the programs of the storm test without a sandbox. Their answers must
// be correct.
func TestGeneratedPrograms(t *testing.T) {
	t.Parallel()
	h := &host{canary: "canary"}
	if !slices.Equal(generateHonest(7, 50), generateHonest(7, 50)) {
		t.Error("the same seed generates other questions")
	}
	if one, other := generateHostile(7, 50, "/x", h), generateHostile(8, 50, "/x", h); one[3].code != generateHostile(7, 50, "/x", h)[3].code ||
		slices.EqualFunc(one, other, func(a, b excess) bool { return a.code == b.code }) {
		t.Error("different seeds generate the same programs")
	}
	for _, q := range generateHonest(7, 16) {
		command := exec.CommandContext(t.Context(), interpreter, "-I", "-S", "-X", "utf8", "-c", q.code)
		command.Dir = t.TempDir()
		if output, err := command.Output(); err != nil || string(output) != q.answer {
			t.Errorf("%s\nprints %q, %v, not %q", q.code, output, err, q.answer)
		}
	}
}

// program is a Python process on this host.
type program struct {
	stdin  io.WriteCloser
	stdout io.Reader
}

func (p program) Stdin() io.WriteCloser { return p.stdin }
func (p program) Stdout() io.Reader     { return p.stdout }

func startProgram(t *testing.T, code string, args ...string) program {
	t.Helper()
	command := exec.CommandContext(t.Context(), interpreter, slices.Concat([]string{"-I", "-S", "-c", code}, args)...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the program and its children are ended as a group
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatalf("opening a pipe: %v", err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatalf("opening a pipe: %v", err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("starting a program: %v", err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		_ = command.Wait() // fails, because the process was killed
	})
	return program{stdin: stdin, stdout: stdout}
}

// unisolated makes the attempts in a Python process on this host, without a sandbox.
func unisolated(t *testing.T, attempts []attempt) map[string]result {
	t.Helper()
	command := exec.CommandContext(t.Context(), interpreter, "-I", "-S", "-")
	command.Stdin = strings.NewReader(attemptCode(attempts))
	command.Dir = t.TempDir()
	output, err := command.Output()
	if err != nil {
		t.Fatalf("making the attempts: %v", err)
	}
	found, err := results(string(output))
	if err != nil {
		t.Fatalf("reading the results of the attempts: %v", err)
	}
	return found
}

//go:build linux

package sandboxtest

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/workers/internal/sandbox"
)

//go:embed probes/neighbour.py
var neighbourProgram string

// boxes tests a backend's guarantees about single sandboxes, without python.Interpreter.
func (s *suite) boxes(t *testing.T) {
	t.Run("two programs do not see each other", s.twoBoxes)
	t.Run("environment and data", s.environmentAndData)
	t.Run("a program seen from the host", s.seenFromHost)
	t.Run("all processes of a command end with it", s.endOfCommand)
	t.Run("kill ends all processes, and may be repeated", s.killEndsAll)
	t.Run("a command with much output", s.talkative)
	t.Run("usage", s.usage)
}

// start starts a Python program in a new box.
func (s *suite) start(t *testing.T, code string, args ...string) sandbox.Box {
	t.Helper()
	return s.startWith(t, sandbox.Command{Args: slices.Concat([]string{interpreter, "-I", "-S", "-c", code}, args), Limits: wideLimits()})
}

func (s *suite) startWith(t *testing.T, c sandbox.Command) sandbox.Box {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	box, err := s.backend.Start(ctx, c)
	if err != nil {
		t.Fatalf("starting a sandbox: %v", err)
	}
	late := time.AfterFunc(runTimeout, box.Kill) // killing the box ends its output, so that readers do not block forever
	t.Cleanup(func() {
		late.Stop()
		box.Kill()
	})
	return box
}

// line reads one line of a program's output.
func line(t *testing.T, from *bufio.Reader, box sandbox.Box) string {
	t.Helper()
	text, err := from.ReadString('\n')
	if err != nil {
		t.Fatalf("reading the program's output: %v, after %q; stderr %q", err, text, box.Stderr())
	}
	return strings.TrimSpace(text)
}

// ended waits until all processes in a box have ended.
func ended(t *testing.T, box sandbox.Box) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	select {
	case <-box.Done():
	case <-ctx.Done():
		t.Fatalf("the sandbox has not ended; stderr %q", box.Stderr())
	}
}

func (s *suite) twoBoxes(t *testing.T) {
	mine, others := s.host.canary+"-aaaaaa", s.host.canary+"-bbbbbb"
	folders := []string{sandbox.WorkDir, "/tmp", "/dev/shm"}
	first := s.start(t, neighbourProgram, slices.Concat([]string{mine, others}, folders)...)
	second := s.start(t, neighbourProgram, slices.Concat([]string{others, mine}, folders)...)
	for box, reported := range meet(t, first, second) {
		if len(reported) > 0 {
			t.Errorf("program %d found traces of the other: %v", box, reported)
		}
	}
}

// conversation is the input and output of a program.
type conversation interface {
	Stdin() io.WriteCloser
	Stdout() io.Reader
}

// meet lets programs that run simultaneously search for each other. It returns what each program
// has found.
func meet[C conversation](t *testing.T, programs ...C) [][]string {
	t.Helper()
	var readers []*bufio.Reader
	for _, p := range programs {
		readers = append(readers, bufio.NewReader(p.Stdout()))
		if said, err := readers[len(readers)-1].ReadString('\n'); said != "ready\n" {
			t.Fatalf("unexpected output %q: %v", said, err)
		}
	}
	found := make([][]string, len(programs))
	for i, p := range programs {
		_, _ = io.WriteString(p.Stdin(), "look\n")
		said, err := readers[i].ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(said, &found[i])
		}
		if err != nil {
			t.Fatalf("unexpected output %q: %v", said, err)
		}
	}
	return found
}

func (s *suite) environmentAndData(t *testing.T) {
	const code = `import json, os
def opened(number):
    try:
        return os.fstat(number) and True
    except OSError:
        return False
def changed():
    try:
        open("/given/data.txt", "w")
    except OSError:
        return False
    return True
print(json.dumps({
    "environment": sorted(f"{k}={v}" for k, v in os.environ.items() if k != "LC_CTYPE"), "data": open("/given/data.txt").read(),
    "changed": changed(), "folder": os.getcwd(), "user": os.getuid(), "work": os.listdir("/work") + os.listdir("/tmp"),
    "descriptors": [number for number in range(1024) if opened(number)],
}))`

	c := sandbox.Command{
		Args: []string{interpreter, "-I", "-S", "-c", code}, Env: []string{"GIVEN=a b=ä"},
		Data: []sandbox.Data{{Path: "/given/data.txt", Content: []byte("content")}}, Limits: wideLimits(),
	}
	box := s.startWith(t, c)

	var said struct {
		Environment []string `json:"environment"`
		Data        string   `json:"data"`
		Folder      string   `json:"folder"`
		Changed     bool     `json:"changed"`
		User        int      `json:"user"`
		Work        []string `json:"work"`
		Descriptors []int    `json:"descriptors"`
	}
	text := line(t, bufio.NewReader(box.Stdout()), box)
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		t.Fatalf("unexpected output %q: %v", text, err)
	}

	environment := slices.DeleteFunc(said.Environment, func(v string) bool { return strings.HasPrefix(v, "PWD=/") })
	if !slices.Equal(environment, c.Env) {
		t.Errorf("environment = %q, want %q", said.Environment, c.Env)
	}
	if !slices.Equal(said.Descriptors, []int{0, 1, 2}) {
		t.Errorf("unexpected open descriptors: %v", said.Descriptors)
	}
	if said.Data != "content" || said.Changed {
		t.Errorf("data = %q, changed = %v", said.Data, said.Changed)
	}
	if said.Folder != sandbox.WorkDir || said.User == 0 || len(said.Work) > 0 {
		t.Errorf("folder %s, user %d, files %v are not as expected", said.Folder, said.User, said.Work)
	}
	ended(t, box)
}

// seenFromHost checks the isolation of a program from the host's side. A program in the sandbox
// cannot check every kind of isolation, because one kind of isolation may hide the lack of another
// kind.
func (s *suite) seenFromHost(t *testing.T) {
	if s.brief {
		t.Log("skipped: programs in gVisor are not processes of the host")
		return
	}
	mark := newMark()
	box := s.start(t, nameProcess(mark)+`import os, sys
print("ready", flush=True)
sys.stdin.read()`)
	line(t, bufio.NewReader(box.Stdout()), box)
	found := slices.DeleteFunc(marked(mark), func(p process) bool { return p.name != mark }) // other processes have the mark as an argument
	if len(found) != 1 {
		t.Fatalf("unexpected processes of the program: %v", found)
	}

	folder := fmt.Sprintf("/proc/%d/", found[0].pid)
	for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		own, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			t.Fatalf("reading a namespace of this process: %v", err)
		}
		if its, err := os.Readlink(folder + "ns/" + name); err != nil || its == own {
			t.Errorf("namespace %s is the host's: %v", name, err)
		}
	}

	text, err := os.ReadFile(folder + "status")
	if err != nil {
		t.Fatalf("reading the program's status: %v", err)
	}
	fields := statusFor(string(text))
	want := map[string]string{"Seccomp": "2", "NoNewPrivs": "1"}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		want[set] = "0000000000000000"
	}
	for name, value := range want {
		if fields[name] != value {
			t.Errorf("%s = %s, want %s", name, fields[name], value)
		}
	}

	if strings.HasPrefix(fields["Uid"], "0\t") || strings.HasPrefix(fields["Gid"], "0\t") {
		t.Errorf("the program is root on the host: users %s, groups %s", fields["Uid"], fields["Gid"])
	}
}

// lingering returns a program that leaves processes which only SIGKILL can end: children, daemons
// and other programs.
func lingering(mark string) string {
	return nameProcess(mark) + fmt.Sprintf(`
import os, signal, sys, time
for number in range(1, 65):
    if number not in (9, 17, 19, 32, 33):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
for kind in range(6):
    if os.fork() == 0:
        if kind %% 2:
            os.setsid()
            if os.fork() > 0:
                os._exit(0)
        if kind > 3:
            os.execv(%q, ["python3", "-c", "import time; time.sleep(600)", %q])
        time.sleep(600)
print("ready", flush=True)
`, interpreter, mark)
}

// nameProcess returns code that sets the process name to mark. Children and daemons inherit the
// name, so the host finds all of these processes by the name.
func nameProcess(mark string) string {
	return fmt.Sprintf("import ctypes; ctypes.CDLL(None).prctl(15, b%q, 0, 0, 0)\n", mark)
}

func (s *suite) endOfCommand(t *testing.T) {
	mark := newMark()
	box := s.start(t, lingering(mark))
	if _, err := io.ReadAll(box.Stdout()); err != nil {
		t.Errorf("reading the remaining output: %v", err)
	}
	ended(t, box)
	s.nothingFor(t, mark)
}

func (s *suite) killEndsAll(t *testing.T) {
	for range 3 {
		mark := newMark()
		box := s.start(t, lingering(mark)+"time.sleep(600)")
		output := bufio.NewReader(box.Stdout())
		line(t, output, box)
		if len(marked(mark)) == 0 && !s.brief { // in gVisor, a program's processes do not exist on the host
			t.Error("the host does not see the program, so this test could not find its processes")
		}
		box.Kill()
		select {
		case <-box.Done():
		default:
			t.Error("the sandbox has not ended after Kill")
		}
		s.nothingFor(t, mark)
		box.Kill()
		if _, err := io.ReadAll(output); err != nil {
			t.Errorf("reading the remaining output: %v", err)
		}
	}
}

// nothingFor fails the test if processes with the given mark are still alive.
func (s *suite) nothingFor(t *testing.T, mark string) {
	t.Helper()
	if left := gone(t.Context(), func() []process { return marked(mark) }); left != nil {
		t.Errorf("processes still alive %s after the end: %v", goneTimeout, left)
	}
}

func (s *suite) talkative(t *testing.T) {
	box := s.start(t, `import sys
sys.stderr.write("x" * 8_000_000)
print("through", flush=True)`)
	if said := line(t, bufio.NewReader(box.Stdout()), box); said != "through" {
		t.Errorf("unexpected output %q", said)
	}
	ended(t, box)
	if n := len(box.Stderr()); n == 0 || n > 16<<10 {
		t.Errorf("an unexpected number of bytes of the error output was kept: %d", n)
	}
}

func (s *suite) usage(t *testing.T) {
	box := s.start(t, `import os, sys, time
kept = bytearray(os.urandom(1) * (60 << 20))
with open("/work/file", "wb") as file:
    file.write(bytes(5 << 20))
for _ in range(3):
    if os.fork() == 0:
        time.sleep(600)
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
print("ready", flush=True)
sys.stdin.read()`)
	line(t, bufio.NewReader(box.Stdout()), box)

	u, err := box.Usage()
	if err != nil {
		t.Fatalf("reading the usage: %v", err)
	}
	if u.CPU < 200*time.Millisecond || u.CPU > 30*time.Second {
		t.Errorf("unexpected CPU time %s", u.CPU)
	}
	if u.Memory < 50<<20 || u.Memory > 300<<20 {
		t.Errorf("unexpected memory usage of %d MiB", u.Memory>>20)
	}
	if !s.brief && (u.Processes < 4 || u.Processes > 12) {
		t.Errorf("unexpected number of processes: %d", u.Processes)
	}
	if u.Files != 0 && (u.Files < 5<<20 || u.Files > 8<<20) {
		t.Errorf("unexpected size of files: %d MiB", u.Files>>20)
	}
	box.Kill()
	if _, err := box.Usage(); err != nil {
		t.Errorf("reading the usage after the end: %v", err)
	}
}

// victimVariable is an environment variable of a process that is started only to be killed.
const victimVariable = "PARLEY_SANDBOX_VICTIM"

// beVictim keeps a sandbox open until this process is killed. The sandbox must then end as well.
func beVictim(t *testing.T, open func(testing.TB) sandbox.Backend) {
	t.Helper()
	s := newSuite(open(t))
	box := s.start(t, lingering(os.Getenv(victimVariable))+"time.sleep(600)")
	line(t, bufio.NewReader(box.Stdout()), box)
	if _, err := os.Stdout.WriteString("victim ready\n"); err != nil {
		t.Fatalf("reporting that the sandbox runs: %v", err)
	}
	ended(t, box)
}

// workerDies kills a process that has sandboxes, to simulate a crash.
func workerDies(t *testing.T) {
	mark, temporary := newMark(), t.TempDir()
	top, _, _ := strings.Cut(t.Name(), "/WorkerDies")
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+top+"$", "-test.v") //nolint:gosec // G702: this test itself
	command.Env = append(os.Environ(), victimVariable+"="+mark, "TMPDIR="+temporary)
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatalf("opening a pipe: %v", err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("starting the victim: %v", err)
	}

	output := bufio.NewScanner(stdout)
	for output.Scan() && output.Text() != "victim ready" {
		t.Log(output.Text())
	}
	if output.Text() != "victim ready" {
		t.Error("the victim did not start a sandbox")
	}

	_ = command.Process.Kill()
	_ = command.Wait() // fails, because the process was killed
	for _, sign := range []string{mark, temporary} {
		if left := gone(t.Context(), func() []process { return marked(sign) }); left != nil {
			t.Errorf("processes still alive %s after the worker's death: %v", goneTimeout, left)
		}
	}
}

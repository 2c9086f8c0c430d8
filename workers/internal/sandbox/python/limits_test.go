package python

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit"
	"parley/workers/internal/sandbox"
)

func TestLimits(t *testing.T) { //nolint:tparallel // see below
	t.Parallel()
	limits := sandbox.Limits{
		CPU: time.Second, Wall: 30 * time.Second, Memory: 128 << 20, Processes: 16, Files: 4 << 20, FileCount: 1000, Output: 64 << 10,
	}
	backend := newReal(t)
	i, err := Open(backend, Config{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	shared := sandbox.LimitMemory
	if len(backend.Notes()) > 0 {
		shared = "" // if memory is watched, shared anonymous memory is refused
	}
	//nolint:paralleltest // each program needs a core, and some have time limits
	for name, c := range map[string]struct {
		code      string
		limit     sandbox.Limit
		traceback string // "" if the program is killed
	}{
		"cpu":                    {"print('seen')\nwhile True: pass", sandbox.LimitCPU, ""},
		"cpu, signal caught":     {"import signal\nsignal.signal(24, lambda *a: None)\nprint('seen')\nwhile True: pass", sandbox.LimitCPU, ""},
		"cpu of many":            {"import os\nprint('seen')\nfor n in range(3): os.fork()\nwhile True: pass", sandbox.LimitCPU, ""},
		"wall":                   {"import time\nprint('seen')\ntime.sleep(60)", sandbox.LimitWall, ""},
		"wall, signals ignored":  {"import signal, time\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except OSError: pass\nprint('seen')\ntime.sleep(60)", sandbox.LimitWall, ""},
		"wall, in a thread":      {"import threading, time\nprint('seen')\nthreading.Thread(target=time.sleep, args=(60,)).start()", sandbox.LimitWall, ""},
		"memory":                 {"print('seen')\nx = bytearray(100 << 30)", sandbox.LimitMemory, "MemoryError"},
		"memory, bit by bit":     {"print('seen')\nx = []\nwhile True: x.append(bytes(1 << 20))", sandbox.LimitMemory, "MemoryError"},
		"memory of many":         {"import os, time\nprint('seen', flush=True)\nfor n in range(3): os.fork()\nx = b'x' * (60 << 20)\ntime.sleep(60)", sandbox.LimitMemory, "any"},
		"shared memory":          {"import mmap\nprint('seen')\nm = mmap.mmap(-1, 1 << 30)\nfor n in range(0, 1 << 30, 4096): m[n] = 1", shared, "any"},
		"processes":              {"import os, time\nprint('seen')\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)", sandbox.LimitProcesses, "BlockingIOError"},
		"threads":                {"import threading, time\nprint('seen')\nfor n in range(200): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", sandbox.LimitProcesses, "can't start new thread"},
		"files, one":             {"print('seen')\nf = open('x', 'wb')\nwhile True: f.write(bytes(1 << 20))", sandbox.LimitFiles, "OSError"},
		"files, many":            {"print('seen')\nfor n in range(100): open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))", sandbox.LimitFiles, "OSError"},
		"number of files":        {"print('seen')\nfor n in range(10**9): open(f'{n}', 'wb').close()", sandbox.LimitFiles, ""},
		"number of files, ended": {"print('seen')\nfor n in range(1500): open(f'/tmp/{n}', 'wb').close()", sandbox.LimitFiles, "any"}, // the watcher may notice the excess first and kill the program earlier
		"output":                 {"print('seen')\nfor n in range(5000): print('x' * 99)", sandbox.LimitOutput, "none"},
		"limit that is handled":  {"print('seen')\ntry: x = bytearray(100 << 30)\nexcept MemoryError: pass", "", "none"},
		"error like a limit's":   {"print('seen')\nraise BlockingIOError(11, 'try again')", "", "BlockingIOError"},
		"fork bomb":              {"import os\nprint('seen', flush=True)\nwhile True:\n    try: os.fork()\n    except OSError: pass", "any", ""},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			p := Program{Code: "open('made', 'w').write('made')\n" + c.code}
			if c.limit == sandbox.LimitWall {
				p.Wall = 3 * time.Second
			}
			o, err := i.Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.limit == "any" && o.Limit != "", c.limit == o.Limit:
			default:
				t.Errorf("limit = %q, want %q", o.Limit, c.limit)
			}
			if !strings.HasPrefix(o.Stdout, "seen") {
				t.Errorf("printed %q", o.Stdout)
			}
			switch {
			case c.traceback == "any":
			case c.traceback == "none":
				if o.ExitCode != 0 || o.Traceback != "" {
					t.Errorf("exit code %d, traceback %s", o.ExitCode, o.Traceback)
				}
			case c.traceback == "" && (o.ExitCode >= 0 || o.Traceback != ""), !strings.Contains(o.Traceback, c.traceback):
				t.Errorf("exit code %d, traceback %s", o.ExitCode, o.Traceback)
			}
			if len(o.Files) == 0 || c.limit != sandbox.LimitFiles && o.Files[0].Name != "made" {
				t.Error("the file that was made is lost")
			}
			if took := time.Since(began); c.limit == sandbox.LimitWall && took > testkit.Within(20*time.Second) || o.CPU > 3*time.Second {
				t.Errorf("took %v, %v CPU, in all %v", o.Took, o.CPU, took)
			}
		})
	}
}

// TestTimeOfSubprocesses: the kernel kills a program's subprocess at the limit before a measurement
// detects the excess. The program then ends, and the outcome names the limit.
func TestTimeOfSubprocesses(t *testing.T) {
	t.Parallel()
	limits := testLimits
	limits.CPU = 300 * time.Millisecond
	i, err := Open(newBare(t), Config{Limits: limits}) // the bare backend has no watcher
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	const code = `import os, time
for _ in range(2):
    if os.fork() == 0:
        while time.process_time() < .2: pass
        os._exit(0)
    os.wait()
os._exit(%d)`
	for status, limit := range map[int]sandbox.Limit{1: sandbox.LimitCPU, 0: ""} {
		o, err := i.Run(t.Context(), Program{Code: fmt.Sprintf(code, status)})
		if err != nil || o.Limit != limit || o.ExitCode != status {
			t.Errorf("%v, limit %q, exit code %d", err, o.Limit, o.ExitCode)
		}
	}
}

func TestLessTime(t *testing.T) {
	t.Parallel()
	began := time.Now()
	o := run(t, Program{Code: "import time\nprint('seen')\ntime.sleep(60)", Wall: 3 * time.Second}) // the time includes the creation of the sandbox
	if took := time.Since(began); o.Limit != sandbox.LimitWall || o.Stdout != "seen\n" || took < 3*time.Second || o.Took > testkit.Within(20*time.Second) {
		t.Errorf("in all %v: %+v", took, o)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	o := run(t, Program{Code: "import sys\nsys.stderr.write('e' * 1000)\nfor n in range(40): sys.stdout.write('ä' * 99_999 + '\\n')\nNone"})
	if o.Limit != sandbox.LimitOutput || o.Failed() || o.Written != 40*199_999+1000 {
		t.Errorf("limit %q, failed %v, %d written", o.Limit, o.Failed(), o.Written)
	}
	if kept := int64(len(o.Stdout) + len(o.Stderr)); kept > testLimits.Output || kept < testLimits.Output-4 || strings.Contains(o.Stdout, "\uFFFD") {
		t.Errorf("%d bytes kept", kept)
	}
}

func TestCPUIsOfTheProgramAlone(t *testing.T) {
	t.Parallel()
	o := run(t, Program{Code: "import time\nend = time.process_time() + .3\nwhile time.process_time() < end: pass"})
	if o.CPU < 300*time.Millisecond || o.CPU > 600*time.Millisecond {
		t.Errorf("%v", o.CPU)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	s := one()
	if s.err != nil {
		t.Fatal(s.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	began := time.Now()
	if _, err := s.interpreter.Run(ctx, Program{Code: "import time\ntime.sleep(60)"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > testkit.Within(3*time.Second) {
		t.Errorf("returned after %v", took)
	}
	if _, err := s.interpreter.Run(ctx, Program{Code: "print(1)"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

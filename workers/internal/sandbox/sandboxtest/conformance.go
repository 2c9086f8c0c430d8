//go:build linux

package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
)

// suite is the state of the tests for one backend.
type suite struct {
	backend sandbox.Backend
	host    *host
	// brief reduces the tests. It is set for backends whose sandboxes start slowly.
	brief bool
	// watched means that memory is measured per process, because no cgroup limits the memory. It
	// also means that sandboxes share the kernel with the host.
	watched bool

	mu sync.Mutex
	// baseline is the longest duration of a trivial program, which shows how busy this machine is.
	baseline time.Duration
}

func newSuite(b sandbox.Backend) *suite {
	brief := b.Name() == "gvisor"
	return &suite{backend: b, brief: brief, watched: !brief && len(b.Notes()) > 0}
}

// Watched runs the tests whose results differ without cgroups. The backend must have been opened
// without cgroups, and the caller closes it.
func Watched(t *testing.T, b sandbox.Backend) {
	t.Helper()
	s := newSuite(b)
	if !s.watched {
		t.Fatal("the backend does not report that it monitors memory")
	}
	s.exceedAll(t, excessMemory())
}

// Conformance tests all guarantees of a sandbox, with the backend that open returns. It closes the
// backend. The calling test must not run in parallel with other tests.
func Conformance(t *testing.T, open func(testing.TB) sandbox.Backend) {
	t.Helper()
	if os.Getenv(victimVariable) != "" {
		beVictim(t, open)
		return
	}
	h := newHost(t)
	t.Setenv("PARLEY_CANARY", h.canary) // a sandbox that inherits the environment would contain this variable
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary) // all files that a backend keeps on the host are in this folder
	known := map[int]bool{}
	for _, p := range descendants(os.Getpid(), nil) {
		known[p.pid] = true
	}
	before := cgroups(t)

	nodes := deviceNodes(t)
	s := newSuite(open(t))
	s.host = h
	t.Run("MustFail", s.mustFail)
	t.Run("Boxes", s.boxes)
	t.Run("Limits", s.limits)
	t.Run("Honest", s.honest)
	t.Run("Storm", s.storm)
	t.Run("WorkerDies", workerDies)
	if err := s.backend.Close(); err != nil {
		t.Errorf("closing the backend: %v", err)
	}
	nothingLeft(t, known, before, temporary)
	if after := deviceNodes(t); !slices.Equal(nodes, after) {
		t.Errorf("the host's devices have changed: before %v, after %v", nodes, after)
	}
}

// deviceNodes returns the owner, mode and number of each host device that sandboxes may show. A
// sandbox must not change them.
func deviceNodes(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		var stat unix.Stat_t
		if err := unix.Stat("/dev/"+name, &stat); err != nil {
			t.Fatalf("inspecting /dev/%s: %v", name, err)
		}
		found = append(found, fmt.Sprintf("%s %d:%d %o %x", name, stat.Uid, stat.Gid, stat.Mode, stat.Rdev))
	}
	return found
}

// nothingLeft checks that a closed backend has left no processes, cgroups or files on the host.
func nothingLeft(t *testing.T, known map[int]bool, groups []string, temporary string) {
	t.Helper()
	if left := gone(t.Context(), func() []process { return descendants(os.Getpid(), known) }); left != nil {
		t.Errorf("processes left: %v", left)
	}
	if left := gone(t.Context(), func() []process { return marked(temporary) }); left != nil {
		t.Errorf("processes of the backend left: %v", left)
	}
	entries, err := os.ReadDir(temporary)
	if err != nil || len(entries) > 0 {
		t.Errorf("entries left in the folder for temporary files: %v, %v", entries, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), temporary) {
		t.Errorf("mounts left (%v):\n%s", err, mounts)
	}
	left := slices.DeleteFunc(cgroups(t), func(name string) bool { return slices.Contains(groups, name) })
	if len(left) > 0 {
		t.Errorf("control groups left: %v", left)
	}
}

// python opens an interpreter with the given limits. The interpreter is closed at the end of the
// test.
func (s *suite) python(t *testing.T, limits sandbox.Limits) *python.Interpreter {
	t.Helper()
	warm := 2 // as in production, some sandboxes are started in advance and others on demand
	if s.brief {
		warm = 0
	}
	in, err := python.Open(s.backend, python.Config{Limits: limits, Warm: warm})
	if err != nil {
		t.Fatalf("opening the interpreter: %v", err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Errorf("closing the interpreter: %v", err)
		}
	})
	return in
}

// wideLimits returns limits that no honest program of the suite approaches, even on a busy machine.
func wideLimits() sandbox.Limits {
	return sandbox.Limits{
		CPU: 30 * time.Second, Wall: 90 * time.Second, Memory: 512 << 20, Processes: 64, Files: 64 << 20, FileCount: 10_000, Output: 1 << 20,
	}
}

// runTimeout is the time limit of one run. A run that takes longer is considered to hang.
const runTimeout = time.Minute

// run runs a program, which must finish, and returns its outcome.
func run(t *testing.T, in *python.Interpreter, p python.Program) python.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	outcome, err := in.Run(ctx, p)
	if err != nil {
		t.Fatalf("running the program: %v", err)
	}
	return outcome
}

func (s *suite) mustFail(t *testing.T) {
	before := s.host.reached.Load()
	attempts := slices.Concat(deniedCalls(), deniedArguments(), deniedSockets(), deniedOnHost(t, s.host))
	outcome := run(t, s.python(t, wideLimits()), python.Program{Code: attemptCode(attempts)})

	found, err := results(outcome.Stdout)
	if err != nil || outcome.Failed() {
		t.Fatalf("making the attempts: %v %+v", err, outcome)
	}

	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			r, ok := found[a.name]
			if !ok {
				t.Fatal("the program did not make the attempt")
			}
			if s.brief && a.fatal { // accept any refusal, because gVisor rejects some fatal calls before they reach its filter
				a.must = ""
			}
			err := a.escaped(r)
			switch {
			case err != nil && r.Ok && s.brief && a.ownKernel != "":
				t.Logf("%v: %s", err, a.ownKernel)
			case err != nil:
				t.Error(err)
			}
		})
	}

	if reached := s.host.reached.Load() - before; reached > 0 {
		t.Errorf("servers on this host were reached %d times", reached)
	}
}

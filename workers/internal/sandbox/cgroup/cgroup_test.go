package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit"
	"parley/workers/internal/sandbox"
)

var limits = sandbox.Limits{Memory: 96 << 20, Processes: 24, Files: 16 << 20}

// soon returns a second, plus time for the delays of a busy machine.
const soon = 2500 * time.Millisecond

// openRoot opens a Root on this machine.
func openRoot(t *testing.T) *Root {
	t.Helper()
	r, err := Open()
	if err != nil {
		t.Skip("no cgroups can be made here: ", err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func group(t *testing.T, r *Root) *Group {
	t.Helper()
	g, err := r.New(limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func usage(t *testing.T, g *Group) sandbox.Usage {
	t.Helper()
	u, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestChildIsBornInItsGroupAndThisProcessIsNot(t *testing.T) {
	t.Parallel()
	r := openRoot(t)
	g := group(t, r)
	c := begin(t, g, "fork", 2)
	if said := c.says(); said != "ready" {
		t.Fatal(said)
	}
	pids, err := g.Pids()
	if err != nil || len(pids) != 3 || !slices.Contains(pids, c.Process.Pid) || slices.Contains(pids, os.Getpid()) {
		t.Error(pids, err)
	}
	threads, err := filepath.Glob("/proc/self/task/*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads { // no thread of this process remains in the group
		own, _ := os.ReadFile(thread) // the thread may have ended
		for _, dir := range g.dirs {
			if place := filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir)); strings.Contains(string(own), place+"\n") {
				t.Errorf("%s: %s", thread, own)
			}
		}
	}
}

func TestAddedProcessIsInTheGroup(t *testing.T) {
	t.Parallel()
	g := group(t, openRoot(t))
	c := command(t, "wait", 0)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(c.Process.Pid); err != nil {
		t.Error(err)
	}
	pids, err := g.Pids()
	if err != nil || !slices.Equal(pids, []int{c.Process.Pid}) {
		t.Error(pids, err)
	}
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
	if err := g.Add(c.Process.Pid); err == nil {
		t.Error("a process that is gone was added")
	}
}

// roughly returns the maximum memory that a measurement may show for a child that uses the given
// number of bytes. The race detector adds shadow memory.
func roughly(bytes int64) int64 {
	if testkit.Race {
		return 4 * bytes
	}
	return bytes
}

func TestMemoryIsLimitedAndExhaustionNoticed(t *testing.T) {
	t.Parallel()
	g := group(t, openRoot(t))
	honest := begin(t, g, "allocate", 64)
	if said := honest.says(); said != "ready" {
		t.Fatal("64 MiB of 96: ", said)
	}
	if u := usage(t, g); u.Memory < 64<<20 || u.Memory > roughly(96<<20) || u.OutOfMem {
		t.Errorf("%+v", u)
	}
	hostile := begin(t, g, "allocate", 512)
	if said := hostile.says(); said != "" {
		t.Error("512 MiB: ", said)
	}
	if err := hostile.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Error("512 MiB: ", err)
	}
	testkit.Eventually(t, time.Second, "the kernel's note of its end", func() bool { return usage(t, g).OutOfMem })
	if alive := honest.Process.Signal(syscall.Signal(0)); alive != nil {
		t.Error("the other process: ", alive)
	}
	if other := group(t, g.root); usage(t, other).OutOfMem {
		t.Error("another group is out of memory")
	}
}

func TestFilesInMemoryAreLimitedAndNoMemoryOfTheProgram(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("NOT TESTED under the race detector: the detector's own memory exceeds the limit")
	}
	g := group(t, openRoot(t))
	c := begin(t, g, "file", 64)
	if said := c.says(); said != "ready" {
		t.Fatal(said)
	}
	if u := usage(t, g); u.Memory > 100<<20 || u.OutOfMem { // the limit leaves room for the child's copy of the data and for its Go runtime
		t.Errorf("%+v", u)
	}
	hostile := begin(t, g, "file", 512)
	if said := hostile.says(); said != "" {
		t.Error("512 MiB: ", said)
	}
	testkit.Eventually(t, time.Second, "the kernel's note of its end", func() bool { return usage(t, g).OutOfMem })
}

func TestProcessesAreLimited(t *testing.T) {
	t.Parallel()
	g := group(t, openRoot(t))
	c := begin(t, g, "fork", 100)
	if said := c.says(); !strings.Contains(said, "failed") && !strings.Contains(said, "runtime") {
		t.Error(said)
	}
	if u := usage(t, g); u.Processes < 8 || u.Processes > limits.Processes+spareProcesses {
		t.Errorf("%+v", u)
	}
}

func TestProcessorTimeIsCounted(t *testing.T) {
	t.Parallel()
	g := group(t, openRoot(t))
	began := usage(t, g).CPU
	c := begin(t, g, "spin", 300)
	c.says()
	if used := usage(t, g).CPU - began; used < 300*time.Millisecond || used > 3*time.Second {
		t.Error(used)
	}
}

func TestKillEndsAForkStormAndLeavesItsNeighbourAlone(t *testing.T) {
	t.Parallel()
	r := openRoot(t)
	g, neighbour := group(t, r), group(t, r)
	calm := begin(t, neighbour, "stubborn", 0)
	calm.says()
	storm := begin(t, g, "storm", 0)
	storm.says()
	testkit.Eventually(t, 10*time.Second, "a storm", func() bool { return usage(t, g).Processes > limits.Processes/2 })
	began := time.Now()
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > testkit.Within(soon) {
		t.Error(took)
	}
	if pids, err := g.Pids(); err != nil || len(pids) > 0 {
		t.Error(pids, err)
	}
	if err := calm.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("neighbour: ", err)
	}
	if err := g.Kill(); err != nil {
		t.Error("again: ", err)
	}
	c := command(t, "wait", 0)
	if err := g.Start(c.Cmd); err == nil {
		t.Error("started in a killed group")
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

func TestStoppedProcessesAreKilled(t *testing.T) {
	t.Parallel()
	g := group(t, openRoot(t))
	c := begin(t, g, "stubborn", 0)
	c.says()
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
}

func TestRemoveEndsWhatIsLeftAndLeavesNothing(t *testing.T) {
	t.Parallel()
	r := openRoot(t)
	g, err := r.New(limits)
	if err != nil {
		t.Fatal(err)
	}
	c := begin(t, g, "fork", 3)
	c.says()
	for range 2 {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}
	for _, dir := range g.dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Error(dir, err)
		}
	}
	if _, err := g.Usage(); err == nil {
		t.Error("a group that is gone has a usage")
	}
	if pids, err := g.Pids(); err == nil {
		t.Error(pids)
	}
}

func TestManyGroupsAtOnce(t *testing.T) {
	t.Parallel()
	r := openRoot(t)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			g, err := r.New(limits)
			if err != nil {
				t.Error(err)
				return
			}
			cmd := exec.CommandContext(t.Context(), "/bin/sleep", "100")
			if err := g.Start(cmd); err != nil {
				t.Error(err)
			} else {
				pids, err := g.Pids()
				if err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) && !slices.Contains(pids, cmd.Process.Pid) {
					t.Error(pids, err)
				}
			}
			if err := g.Remove(); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // fails, because the process was killed
		})
	}
	all.Wait()
}

// The group of a killed process is removed, but the group of a live process is kept.
func TestLeftoversOfTheDeadAreRemovedAndThoseOfTheLivingNot(t *testing.T) {
	t.Parallel()
	openRoot(t)
	t.Cleanup(func() { // runs after the owners have ended, so that the test leaves no groups
		if r, err := Open(); err == nil {
			_ = r.Close()
		}
	})
	dead, alive := owner(t), owner(t)
	if err := dead.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = dead.Wait() // fails, because the process was killed
	if _, err := os.Stat(dead.dir); err != nil {
		t.Fatal("nothing was left to clean: ", err)
	}
	mine := openRoot(t)
	testkit.Eventually(t, 5*time.Second, "the end of what the dead one has left", func() bool { // another process may already be removing the group
		_, err := os.Stat(dead.dir)
		return errors.Is(err, os.ErrNotExist)
	})
	testkit.Eventually(t, soon, "the end of what the dead one ran", func() bool { return goneOrZombie(dead.inside) })
	pids, err := pidsIn(alive.dir)
	if err != nil || !slices.Equal(pids, []int{alive.inside}) {
		t.Error(pids, err)
	}
	if err := mine.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(alive.dir); err != nil {
		t.Error("taken from the living: ", err)
	}
}

type ownerProcess struct {
	*childProcess
	inside int    // pid of a process in the group
	dir    string // folder of the group
}

// owner starts a process that opens a Root of its own.
func owner(t *testing.T) ownerProcess {
	t.Helper()
	c := command(t, "root", 20)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	o := ownerProcess{childProcess: c}
	said := strings.Fields(c.says())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if o.inside > 0 {
			_ = syscall.Kill(o.inside, syscall.SIGKILL)
		}
	})
	if len(said) != 3 {
		t.Fatal(said)
	}
	var err error
	if o.inside, err = strconv.Atoi(said[1]); err != nil {
		t.Fatal(err)
	}
	o.dir = said[2]
	return o
}

func goneOrZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// BenchmarkStartingInAGroup measures the start of a process in a group. Each start of a sandbox
// includes this step.
func BenchmarkStartingInAGroup(b *testing.B) {
	r, err := Open()
	if err != nil {
		b.Skip("no cgroups can be made here: ", err)
	}
	defer func() { _ = r.Close() }()
	for b.Loop() {
		g, err := r.New(limits)
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.CommandContext(b.Context(), "/bin/true")
		if err := errors.Join(g.Start(cmd), cmd.Wait(), g.Remove()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUsage(b *testing.B) {
	r, err := Open()
	if err != nil {
		b.Skip("no cgroups can be made here: ", err)
	}
	defer func() { _ = r.Close() }()
	g, err := r.New(limits)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := g.Usage(); err != nil {
			b.Fatal(err)
		}
	}
	if err := g.Remove(); err != nil {
		b.Fatal(err)
	}
}

package proctree

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit"
)

// soon returns a second, plus time for the delays of a busy machine.
const soon = 2500 * time.Millisecond

// own returns process attributes that give a child its own PID namespace, as in a sandbox.
func own() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	return attr
}

func TestHostileTreesEndSoon(t *testing.T) { //nolint:tparallel // storms would slow each other down
	t.Parallel()
	for name, c := range map[string]struct { //nolint:paralleltest // as above
		what   string
		n      int
		attr   *syscall.SysProcAttr
		before func(*exec.Cmd)
		least  int // number of processes
	}{
		"one":                             {what: "wait", least: 1},
		"one that ignores signals":        {what: "stubborn", least: 1},
		"deep":                            {what: "chain", n: 20, least: 21},
		"stopped":                         {what: "wait", before: func(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGSTOP) }, least: 1},
		"stopped children":                {what: "stopped", n: 10, least: 11},
		"zombies":                         {what: "zombies", n: 10, least: 1},
		"fork storm":                      {what: "storm", n: 2, least: 1},
		"namespace":                       {what: "wait", attr: own(), least: 1},
		"daemons in a namespace":          {what: "daemons", n: 10, attr: own(), least: 11},
		"zombies in a namespace":          {what: "zombies", n: 10, attr: own(), least: 1},
		"stopped children in a namespace": {what: "stopped", n: 10, attr: own(), least: 11},
		"fork storm in a namespace":       {what: "storm", n: 2, attr: own(), least: 1},
	} {
		t.Run(name, func(t *testing.T) {
			tree, cmd, mark := begin(t, c.what, c.n, c.attr)
			if c.before != nil {
				c.before(cmd)
			}
			testkit.Eventually(t, 10*time.Second, "all processes", func() bool {
				pids, err := tree.Pids()
				return err == nil && len(pids) >= c.least && pids[0] == cmd.Process.Pid
			})
			began := time.Now()
			err := tree.Kill()
			if took := time.Since(began); err != nil || took > testkit.Within(soon) {
				t.Error(took, err)
			} else {
				t.Log(took)
			}
			if left := marked(t, mark); len(left) > 0 {
				t.Error("alive: ", left)
			}
			_ = cmd.Wait() // fails, because the process was killed
			if err := tree.Kill(); err != nil {
				t.Error("again: ", err)
			}
			if pids, err := tree.Pids(); err != nil || len(pids) > 0 {
				t.Error(pids, err)
			}
		})
	}
}

// If the pid of the first process has been reused, the tree has ended, and the new process with
// this pid is not killed.
func TestAnotherProcessOfTheSameNumberIsLeftAlone(t *testing.T) {
	t.Parallel()
	_, cmd, _ := begin(t, "stubborn", 0, nil)
	earlier := Tree{pid: cmd.Process.Pid, start: 1}
	if err := earlier.Kill(); err != nil {
		t.Error(err)
	}
	if pids, err := earlier.Pids(); err != nil || len(pids) > 0 {
		t.Error(pids, err)
	}
	if u, err := earlier.Usage(0); err != nil || u.Processes > 0 || u.CPU > 0 || u.Memory > 0 {
		t.Errorf("%+v %v", u, err)
	}
	k := killer{tree: earlier, seen: map[int]process{}, first: map[int]bool{}, held: map[int]*os.Process{}}
	defer k.release()
	k.hold(process{pid: cmd.Process.Pid, start: 1})
	k.signal([]process{{pid: cmd.Process.Pid}}, syscall.SIGKILL)
	now, err := readProcess(cmd.Process.Pid)
	if err != nil || now.gone() {
		t.Error("killed for another: ", err)
	}
	if err := Kill(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
	if err := Kill(cmd.Process.Pid); err != nil {
		t.Error("one that is gone: ", err)
	}
	if _, err := Of(cmd.Process.Pid); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestUsageCountsTheWholeTree(t *testing.T) {
	t.Parallel()
	tree, cmd, _ := begin(t, "chain", 3, nil)
	u, err := tree.Usage(1 << 40)
	if err != nil || u.Processes < 4 || u.Memory < 4*(200<<10) || u.Memory > 400<<20 {
		t.Errorf("%+v %v", u, err)
	}
	once, err := tree.Usage(0)
	if err != nil || once.Memory <= 0 || once.Memory > u.Memory*3/2 {
		t.Errorf("%+v %v", once, err)
	}
	if err := tree.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // fails, because the process was killed
}

func TestUsageCountsMemory(t *testing.T) {
	t.Parallel()
	tree, cmd, _ := begin(t, "allocate", 64, nil)
	limit := int64(128 << 20)
	if testkit.Race { // the race detector adds shadow memory
		limit *= 4
	}
	for _, enough := range []int64{0, 1 << 40} {
		if u, err := tree.Usage(enough); err != nil || u.Memory < 64<<20 || u.Memory > limit {
			t.Errorf("%+v %v", u, err)
		}
	}
	if err := tree.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // fails, because the process was killed
}

func TestUsageCountsProcessorTimeOfTheDeadToo(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"spin", "busy"} {
		tree, cmd, _ := begin(t, what, 300, nil)
		if u, err := tree.Usage(1 << 40); err != nil || u.CPU < 280*time.Millisecond || u.CPU > 3*time.Second {
			t.Errorf("%s: %+v %v", what, u, err)
		}
		if err := tree.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // fails, because the process was killed
	}
}

func TestZombiesUseNothing(t *testing.T) {
	t.Parallel()
	tree, cmd, _ := begin(t, "wait", 0, nil)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "its end", func() bool {
		pids, err := tree.Pids()
		return err == nil && len(pids) == 0
	})
	if u, err := tree.Usage(0); err != nil || u.Processes != 0 || u.Memory != 0 {
		t.Errorf("%+v %v", u, err)
	}
	_ = cmd.Wait() // fails, because the process was killed
}

// A program can choose its process name. The name must not confuse the parser.
func TestLinesOfProcWithHostileNames(t *testing.T) {
	t.Parallel()
	rest := ` S 7 1 1 0 -1 4194304 1 2 3 4 100 50 25 5 20 0 3 0 12345 1 2 3`
	for _, name := range []string{"sh", "a b", ") Z 1 (", "x)", "((", "", "\n) R 0 0"} {
		p, err := parse(9, []byte("9 ("+name+")"+rest))
		want := process{pid: 9, parent: 7, state: 'S', threads: 3, cpu: 1800 * time.Millisecond, start: 12345}
		if err != nil || p != want {
			t.Errorf("%q: %+v %v", name, p, err)
		}
	}
	for _, bad := range []string{"", "9", "9 (x", "9 (x)", "9 (x) S 1", "9 (x) SS" + rest[2:], "9 (x)" + strings.ReplaceAll(rest, "7", "y")} {
		if p, err := parse(9, []byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, p)
		}
	}
	if list, err := allProcesses(); err != nil || !slices.ContainsFunc(list, func(p process) bool { return p.pid == os.Getpid() }) {
		t.Error(err)
	}
	for state, gone := range map[byte]bool{'R': false, 'S': false, 'T': false, 'D': false, 'Z': true, 'X': true} {
		if (process{state: state}).gone() != gone {
			t.Errorf("%c", state)
		}
	}
}

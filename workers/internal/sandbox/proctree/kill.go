package proctree

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	killTime = 5 * time.Second // a hundred times the usual duration, because the machine may be busy
	// stopTime limits the time in which processes are only stopped. Afterwards the processes are
	// killed, even if new processes still appear.
	stopTime = 700 * time.Millisecond
	killPoll = time.Millisecond
)

// Kill kills a process and all processes that it has started. The process must not have been
// reaped.
func Kill(pid int) error {
	t, err := Of(pid)
	if err != nil {
		return nil //nolint:nilerr // the process has ended, and its children cannot be found
	}
	return t.Kill()
}

// Kill kills all processes in the tree and waits until they are gone, which takes milliseconds, or
// up to a second on a busy machine. It returns an error if processes are still alive after
// killTime. The parent of the first process must reap it. Kill begins with the first processes of
// PID namespaces, because all other processes in a namespace die with the first one.
func (t Tree) Kill() error {
	k := killer{tree: t, seen: map[int]process{}, first: map[int]bool{}, held: map[int]*os.Process{}}
	defer k.release()
	poll := time.NewTicker(killPoll)
	defer poll.Stop()

	began := time.Now()
	for ; ; <-poll.C {
		left, err := k.round(time.Since(began) > stopTime)
		if err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		if time.Since(began) > killTime {
			return fmt.Errorf("killing process %d and its descendants: %d %w", t.pid, left, errAlive)
		}
	}
}

// killer is the state of one call of Kill. It is used by one goroutine.
type killer struct {
	tree  Tree
	seen  map[int]process     // processes of this round and the previous one, including those whose parents have died in between
	first map[int]bool        // the first processes of PID namespaces
	held  map[int]*os.Process // handles (pidfds) of processes; a signal through a handle never reaches another process

	complete bool // the last round found no new process, and no process that can start another
}

// round lists the tree once, kills or stops its processes, and returns the number of live
// processes. Processes outside of inner PID namespaces are first stopped, and killed when no new
// process is found. If they were killed immediately, init could adopt children that were not listed
// yet. If late is true, round kills them in any case. The error means that /proc cannot be read.
func (k *killer) round(late bool) (living int, err error) {
	members, err := k.tree.members(k.seen)
	if err != nil {
		return 0, err
	}

	complete := true

	// First processes of namespaces are killed now. Other processes are stopped, so that they
	// cannot start new processes.
	found := make(map[int]process, len(members))
	var firsts int
	var others []process
	for _, p := range members {
		complete = k.hold(p) && complete
		found[p.pid] = p
		switch {
		case p.gone():
		case k.first[p.pid]:
			k.signal([]process{p}, syscall.SIGKILL) // kill it immediately, because a live first process keeps creating other processes
			firsts++
		default:
			others = append(others, p)
			complete = complete && (p.state == 'T' || p.state == 'D') // state D: the process waits for a stopped process that it has started
		}
	}

	k.seen = found // forget processes that are no longer listed, because they have ended
	for _, p := range members {
		if p.gone() {
			living += k.reap(p)
		}
	}

	living += firsts + len(others)

	switch {
	case late || complete && k.complete:
		k.signal(others, syscall.SIGKILL)
	case firsts == 0: // stop processes only when no first process of a namespace is alive, because most processes die with a first process
		k.signal(slices.DeleteFunc(others, func(p process) bool { return p.state == 'T' }), syscall.SIGSTOP)
	}

	k.complete = complete
	return living, nil
}

// hold opens a handle for a process, unless its handle is already open. It reports whether the
// process was already known from the previous round. A process without a handle receives no signal
// in this round.
func (k *killer) hold(p process) (known bool) {
	// A process with the same pid but another start time is a different process.
	if earlier, is := k.seen[p.pid]; is && earlier.start == p.start {
		return true
	}
	if old := k.held[p.pid]; old != nil {
		_ = old.Release()
		delete(k.held, p.pid)
	}
	k.first[p.pid] = isFirst(p.pid)
	held, err := os.FindProcess(p.pid)
	if err != nil {
		return false
	}
	if now, err := readProcess(p.pid); err != nil || now.start != p.start { // the pid was reused before the handle was opened
		_ = held.Release()
		return false
	}
	k.held[p.pid] = held
	return false
}

// signal sends a signal to processes through their handles. It skips processes without a handle.
func (k *killer) signal(list []process, s syscall.Signal) {
	for _, p := range list {
		if held := k.held[p.pid]; held != nil {
			_ = held.Signal(s) // a process that has ended needs no signal
		}
	}
}

// reap reaps a dead process if this process has adopted it. left is 1 if a later round must handle
// the process, and otherwise 0. This process adopts orphans if it is the first process of a
// container. reap skips the tree's first process, which its parent reaps. A process whose parent is
// in the tree is left for a later round.
func (k *killer) reap(p process) (left int) {
	if _, parentLives := k.seen[p.parent]; parentLives && p.pid != k.tree.pid {
		return 1
	}
	if p.parent == os.Getpid() && p.pid != k.tree.pid {
		_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
	}
	delete(k.seen, p.pid)
	return 0
}

// release closes all handles.
func (k *killer) release() {
	for _, p := range k.held {
		_ = p.Release()
	}
}

// isFirst reports whether a process is the first process of a PID namespace below the namespace of
// the caller.
func isFirst(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}

	// NSpid lists the process's pid in each namespace, from the caller's to the innermost.
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "NSpid:"); is {
			numbers := strings.Fields(rest)
			return len(numbers) > 1 && numbers[len(numbers)-1] == "1"
		}
	}
	return false
}

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
	killTime = 5 * time.Second // a hundred times the usual time, for busy machines
	stopTime = 700 * time.Millisecond
	killPoll = time.Millisecond
)

// Kill kills the tree of a process, which must not have been reaped yet.
func Kill(pid int) error {
	t, err := Of(pid)
	if err != nil {
		return nil //nolint:nilerr // the process has ended, and its children cannot be found
	}
	return t.Kill()
}

// Kill kills every process of the tree and returns when none is alive: usually within milliseconds,
// within a second on a busy machine. It fails if some are still alive after seconds. The starter of
// the first process must still wait for it. The first processes of PID namespaces are killed first:
// all processes in their namespaces die with them, and their parents can still reap them.
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

// killer is a Kill in progress.
type killer struct {
	tree  Tree
	seen  map[int]process     // all processes in the tree now or in the last round, because the parents of some have died since
	first map[int]bool        // the first processes of PID namespaces
	held  map[int]*os.Process // a handle on each process (a pidfd), through which signals reach that process or none

	settled bool // the last round found nothing new, and nothing that can start a process
}

// round lists the tree once, kills or stops what it finds, and returns the number of live
// processes. Processes outside PID namespaces are first stopped, and killed when nothing new is
// found. If they were killed immediately, they could leave unseen children that init adopts.
func (k *killer) round(late bool) (living int, err error) {
	members, err := k.tree.members(k.seen)
	if err != nil {
		return 0, err
	}

	settled := true
	found := make(map[int]process, len(members))
	var firsts int
	var others []process
	for _, p := range members {
		settled = k.hold(p) && settled
		found[p.pid] = p
		switch {
		case p.gone():
		case k.first[p.pid]:
			k.signal([]process{p}, syscall.SIGKILL) // immediately, because it keeps creating processes while it lives
			firsts++
		default:
			others = append(others, p)
			settled = settled && (p.state == 'T' || p.state == 'D') // D: it is starting a process that is stopped, and waits for that
		}
	}

	k.seen = found // processes that are missing have ended
	for _, p := range members {
		if p.gone() {
			living += k.reap(p)
		}
	}

	living += firsts + len(others)

	switch {
	case late || settled && k.settled:
		k.signal(others, syscall.SIGKILL)
	case firsts == 0: // otherwise most of the others end without it
		k.signal(slices.DeleteFunc(others, func(p process) bool { return p.state == 'T' }), syscall.SIGSTOP)
	}

	k.settled = settled
	return living, nil
}

// hold takes a handle on a process and reports whether it already had one.
func (k *killer) hold(p process) (known bool) {
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
	if now, err := readProcess(p.pid); err != nil || now.start != p.start { // the pid was reused before the handle was taken
		_ = held.Release()
		return false
	}
	k.held[p.pid] = held
	return false
}

func (k *killer) signal(list []process, s syscall.Signal) {
	for _, p := range list {
		if held := k.held[p.pid]; held != nil {
			_ = held.Signal(s) // a process that has ended needs no signal
		}
	}
}

// reap waits for a dead process that this process has adopted, which happens if this is the first
// process of a container. A process whose parent is still in the tree is left to a later round. The
// tree's first process is left to its starter.
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

func (k *killer) release() {
	for _, p := range k.held {
		_ = p.Release()
	}
}

// isFirst reports whether a process is the first of a PID namespace below this one.
func isFirst(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "NSpid:"); is {
			numbers := strings.Fields(rest)
			return len(numbers) > 1 && numbers[len(numbers)-1] == "1"
		}
	}
	return false
}

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
	killTime = 5 * time.Second // a hundred times what it takes, for machines that are busy
	stopTime = 700 * time.Millisecond
	killPoll = time.Millisecond
)

// Kill ends the tree of a process, which must not have been waited for yet.
func Kill(pid int) error {
	t, err := Of(pid)
	if err != nil {
		return nil //nolint:nilerr // it is gone, and what it may have left is nobody's
	}
	return t.Kill()
}

// Kill ends every process of the tree, and returns when none lives: after milliseconds, within a second on a busy machine. That
// some live after seconds is an error. Whoever started the first process waits for it as ever. The first processes of PID namespaces
// die first: they take along all in theirs, and what would wait for them lives still.
func (t Tree) Kill() error {
	k := killing{tree: t, seen: map[int]process{}, first: map[int]bool{}, held: map[int]*os.Process{}}
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

// killing is one Kill under way.
type killing struct {
	tree  Tree
	seen  map[int]process     // all that are or were in the tree: the parents of some have died since
	first map[int]bool        // those that are the first of a PID namespace
	held  map[int]*os.Process // a hold on each (a pidfd): signals through it reach that process, or none

	settled bool // the last round found nothing new, and nothing that can start anything
}

// round looks once and kills what it finds, and says how many still live. What is in no PID namespace is stopped first and killed when
// nothing new is found: killed at once, it would leave children behind that nobody has seen yet, and that init adopts.
func (k *killing) round(late bool) (living int, err error) {
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
			k.signal([]process{p}, syscall.SIGKILL) // at once: while it lives there are ever more of its own to look at
			firsts++
		default:
			others = append(others, p)
			settled = settled && (p.state == 'T' || p.state == 'D') // D: it starts one that is stopped, and waits for that
		}
	}
	k.seen = found // who is missing is gone
	for _, p := range members {
		if p.gone() {
			living += k.reap(p)
		}
	}
	living += firsts + len(others)
	switch {
	case late || settled && k.settled:
		k.signal(others, syscall.SIGKILL)
	case firsts == 0: // else most of the others go by themselves
		k.signal(slices.DeleteFunc(others, func(p process) bool { return p.state == 'T' }), syscall.SIGSTOP)
	}
	k.settled = settled
	return living, nil
}

// hold takes a hold on a process, unless it has one: then it was known.
func (k *killing) hold(p process) (known bool) {
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
	if now, err := look(p.pid); err != nil || now.start != p.start { // the number was given again before we had the hold
		_ = held.Release()
		return false
	}
	k.held[p.pid] = held
	return false
}

func (k *killing) signal(list []process, s syscall.Signal) {
	for _, p := range list {
		if held := k.held[p.pid]; held != nil {
			_ = held.Signal(s) // one that is gone needs none
		}
	}
}

// reap waits for a dead process that was given to this one when its parent died, as happens where this is the first process of a
// container: nobody else does. One whose parent is in the tree is left to the next round, when that is dead too. The tree's own
// first process is waited for by who started it.
func (k *killing) reap(p process) (left int) {
	if _, parentLives := k.seen[p.parent]; parentLives && p.pid != k.tree.pid {
		return 1
	}
	if p.parent == os.Getpid() && p.pid != k.tree.pid {
		_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
	}
	delete(k.seen, p.pid)
	return 0
}

func (k *killing) release() {
	for _, p := range k.held {
		_ = p.Release()
	}
}

// isFirst tells whether a process is the first one of a PID namespace below ours.
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

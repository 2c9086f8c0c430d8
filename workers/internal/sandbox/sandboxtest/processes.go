//go:build linux

package sandboxtest

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// goneWithin is how long anything of a sandbox may live after its end: each process needs a moment of a processor to die, and gives way
// to all others.
const goneWithin = 5 * time.Second

// process is one of the host's.
type process struct {
	pid, parent int
	state       string
	name        string // as it calls itself
	line        string // its arguments
}

func (p process) String() string {
	return fmt.Sprintf("%d (%s, %s) %.120q", p.pid, p.name, p.state, p.line)
}

// processes are all that this process may see.
func processes() []process {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	found := make([]process, 0, len(folders))
	for _, folder := range folders {
		status, err := os.ReadFile(filepath.Join(folder, "status"))
		if err != nil {
			continue // it has ended
		}
		line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		fields := statusFor(string(status))
		pid, _ := strconv.Atoi(fields["Pid"])
		parent, _ := strconv.Atoi(fields["PPid"])
		state, _, _ := strings.Cut(fields["State"], " ")
		found = append(found, process{
			pid: pid, parent: parent, state: state, name: fields["Name"], line: strings.ReplaceAll(string(line), "\x00", " "),
		})
	}
	return found
}

// statusFor reads /proc/<pid>/status.
func statusFor(text string) map[string]string {
	fields := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// marked are processes that carry the mark in their name or arguments. Children have their parents' names, daemons too.
func marked(mark string) []process {
	var found []process
	for _, p := range processes() {
		if strings.Contains(p.name, mark) || strings.Contains(p.line, mark) {
			found = append(found, p)
		}
	}
	return found
}

// descendants are the processes below one, without those that are known and what is below them.
func descendants(pid int, known map[int]bool) []process {
	children := map[int][]process{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	for pending := []int{pid}; len(pending) > 0; pending = pending[1:] {
		for _, child := range children[pending[0]] {
			if !known[child.pid] {
				found, pending = append(found, child), append(pending, child.pid)
			}
		}
	}
	return found
}

// gone waits until find finds nothing, for as long as anything of a sandbox may live, and returns what is left.
func gone[T any](ctx context.Context, find func() []T) []T {
	ctx, cancel := context.WithTimeout(ctx, goneWithin)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		left := find()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return find()
		}
	}
}

// newMark is a name for a program's processes, as long as the kernel keeps one.
func newMark() string { return fmt.Sprintf("mark%011x", rand.Int64N(1<<44)) } //nolint:gosec // G404: no secret

// cgroups are the control groups that this process has made.
func cgroups(tb testing.TB) []string {
	tb.Helper()
	own := fmt.Sprintf("parley-%d-", os.Getpid())
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // one that is gone by now, or not ours to see
			return fs.SkipDir
		case d.IsDir() && strings.HasPrefix(d.Name(), own):
			found = append(found, path)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		tb.Fatalf("listing control groups: %v", err)
	}
	return found
}

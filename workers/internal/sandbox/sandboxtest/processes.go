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

// goneTimeout is the maximum time that processes of a sandbox may live after the sandbox has ended.
// To die, each process needs a moment of processor time at low priority.
const goneTimeout = 5 * time.Second

// process is a process on the host.
type process struct {
	pid, parent int
	state       string
	name        string // name that the process has set
	line        string // arguments of the process
}

func (p process) String() string {
	return fmt.Sprintf("%d (%s, %s) %.120q", p.pid, p.name, p.state, p.line)
}

// processes returns all processes that this process can see.
func processes() []process {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	found := make([]process, 0, len(folders))
	for _, folder := range folders {
		status, err := os.ReadFile(filepath.Join(folder, "status"))
		if err != nil {
			continue // the process has ended
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

// statusFor parses /proc/<pid>/status.
func statusFor(text string) map[string]string {
	fields := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// marked returns the processes whose name or arguments contain the mark. Children and daemons
// inherit the name.
func marked(mark string) []process {
	var found []process
	for _, p := range processes() {
		if strings.Contains(p.name, mark) || strings.Contains(p.line, mark) {
			found = append(found, p)
		}
	}
	return found
}

// descendants returns the descendants of a process. It omits known processes and their descendants.
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

// gone calls the function find until it returns nothing, for at most goneTimeout. It returns the
// last result.
func gone[T any](ctx context.Context, find func() []T) []T {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
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

// newMark returns a name for the processes of a program. It has the maximum length of a process
// name.
func newMark() string { return fmt.Sprintf("mark%011x", rand.Int64N(1<<44)) } //nolint:gosec // not a secret

// cgroups returns the cgroups that this process has created.
func cgroups(tb testing.TB) []string {
	tb.Helper()
	own := fmt.Sprintf("parley-%d-", os.Getpid())
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // the cgroup was removed in the meantime, or is not readable
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

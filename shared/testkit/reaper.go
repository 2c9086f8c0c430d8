package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// markKey is the name of the environment variable whose value identifies the processes that belong
// to a test process.
const markKey = "PARLEY_TEST_RUN"

// reaperScript waits until its standard input is closed, which shows that the test process is gone,
// and then cleans up. $1 is the directory, and $2 the mark. The script kills the processes several
// times, because a process may start a child before the process is killed.
const reaperScript = `
cat >/dev/null
for script in "$1"/*.end; do
	[ -f "$script" ] && sh "$script" &
done
for record in "$1"/*/data/postmaster.pid; do
	[ -f "$record" ] && kill -QUIT "$(head -n 1 "$record")"
done
kill_marked() {
	for environment in $(grep -l -s "$1" /proc/[0-9]*/environ); do
		pid=${environment%/environ}
		kill -KILL "${pid#/proc/}"
	done
}
kill_marked "$2"
tries=0
while [ -e "$1" ] && [ $tries -lt 100 ]; do
	kill_marked "$2"
	set -- "$1" "$2" "$1"/*/data/postmaster.pid
	if [ ! -e "$3" ] || [ $tries -ge 50 ]; then
		rm -rf -- "$1"
	fi
	[ ! -e "$1" ] || sleep 0.1
	tries=$((tries + 1))
done
`

// processResources are the resources that all tests of this process share.
type processResources struct {
	dir  string // directory of all files
	mark string // "key=value" in the environment of all processes that the tests start
	pipe *os.File
}

// ownResources returns the resources of this test process. Its first call creates them.
var ownResources = sync.OnceValues(newBelongings)

func newBelongings() (*processResources, error) {
	dir, err := os.MkdirTemp(scratch(), "parley-test-")
	if err != nil {
		return nil, fmt.Errorf("creating temporary directory: %w", err)
	}
	made := &processResources{dir: dir, mark: markKey + "=" + rand.Text()}
	if err := made.watch(); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return made, nil
}

// maximum size of the servers' data, plus a reserve
const (
	memoryDir  = "/dev/shm"
	memoryFree = 8 << 30
)

// scratch returns the parent of all temporary directories. If TMPDIR is not set and the machine has
// enough memory, the parent is a directory in memory, because the data is not needed after the
// tests. Otherwise scratch returns "", which means the default.
func scratch() string {
	var free syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memoryDir, &free) != nil {
		return ""
	}
	room := uint64(free.Bavail) * uint64(max(0, free.Bsize)) //nolint:unconvert,nolintlint // other types on other systems
	if room < memoryFree || availableMemory() < memoryFree {
		return ""
	}
	return memoryDir
}

// availableMemory returns the available memory in bytes, or 0 if unknown.
func availableMemory() uint64 {
	content, _ := os.ReadFile("/proc/meminfo")
	_, rest, _ := strings.Cut(string(content), "MemAvailable:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseUint(fields[0], 10, 64)
	return kib << 10
}

// watch starts the reaper script. The script runs in a new session, so that a signal that ends the
// test process does not also end the script.
func (b *processResources) watch() error {
	reads, writes, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making pipe: %w", err)
	}

	defer reads.Close()
	cmd := exec.CommandContext(context.Background(), "sh", "-c", reaperScript, "sh", b.dir, b.mark)
	cmd.Stdin = reads
	cmd.Dir = "/"
	// If another test process has started this one, the environment contains the mark of that
	// process. Remove that mark, because the reaper of that process would kill this reaper.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, markKey+"=") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting reaper: %w", err), writes.Close())
	}

	b.pipe = writes // open until this process ends
	return cmd.Process.Release()
}

// tempDir returns a directory for this test, which is removed even if the test is killed.
func tempDir(tb testing.TB, name string) string {
	tb.Helper()
	own, err := ownResources()
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}

	dir, err := os.MkdirTemp(own.dir, name+"-") //nolint:usetesting // below the reaper's directory
	if err != nil {
		tb.Fatalf("testkit: creating temporary directory: %v", err)
	}

	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("testkit: removing temporary directory: %v", err)
		}
	})
	return dir
}

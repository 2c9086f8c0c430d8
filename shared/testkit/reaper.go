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

// markKey is the environment variable by which the processes of a test process are known.
const markKey = "PARLEY_TEST_RUN"

// reaperScript waits until the test process is gone - then nobody has the other end of its
// input any more - and clears up. $1 is the directory, $2 the mark. It kills more than
// once, for what is being killed may just have started something.
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

// belongings are what this test process has made.
type belongings struct {
	dir  string // everything lies below
	mark string // "key=value" of the environment of its processes
	pipe *os.File
}

// mine is made at first use.
var mine = sync.OnceValues(newBelongings)

func newBelongings() (*belongings, error) {
	dir, err := os.MkdirTemp(scratch(), "parley-test-")
	if err != nil {
		return nil, fmt.Errorf("making temporary directory: %w", err)
	}
	made := &belongings{dir: dir, mark: markKey + "=" + rand.Text()}
	if err := made.watch(); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return made, nil
}

// What the data of servers need at most, with room: as much memory has to be free on the machine for them to lie there.
const (
	memoryDir  = "/dev/shm"
	memoryFree = 8 << 30
)

// scratch is where everything is put: in memory, which spares the time of a file system whose data nobody needs after
// the tests, on machines that have enough of it and unless TMPDIR says otherwise.
func scratch() string {
	var free syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memoryDir, &free) != nil {
		return ""
	}
	room := uint64(free.Bavail) * uint64(max(0, free.Bsize)) //nolint:unconvert,nolintlint // of other types elsewhere
	if room < memoryFree || availableMemory() < memoryFree {
		return ""
	}
	return memoryDir
}

// availableMemory is in bytes, 0 where it is not told.
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

// watch starts the shell that clears up. It is in a session of its own, so that what ends
// the test process does not end it too.
func (b *belongings) watch() error {
	reads, writes, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making pipe: %w", err)
	}
	defer reads.Close()
	cmd := exec.CommandContext(context.Background(), "sh", "-c", reaperScript, "sh", b.dir, b.mark)
	cmd.Stdin = reads
	cmd.Dir = "/"
	// Without a mark that this process may carry itself, whose reaper would end this one.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, markKey+"=") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting reaper: %w", err), writes.Close())
	}
	b.pipe = writes // stays open until this process ends
	return cmd.Process.Release()
}

// tempDir is a directory of this test's own, which is gone even if the test is killed.
func tempDir(tb testing.TB, name string) string {
	tb.Helper()
	own, err := mine()
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	dir, err := os.MkdirTemp(own.dir, name+"-") //nolint:usetesting // below what the reaper removes
	if err != nil {
		tb.Fatalf("testkit: making temporary directory: %v", err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("testkit: removing temporary directory: %v", err)
		}
	})
	return dir
}

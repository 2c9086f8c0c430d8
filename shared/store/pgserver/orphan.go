package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"parley/shared/lifecycle"
)

// stopSignal is a signal that ends a server, and the time to wait for the server's end.
type stopSignal struct {
	signal   syscall.Signal
	patience time.Duration
}

// stopSignals lists the signals from the mildest to the hardest.
var stopSignals = []stopSignal{
	{syscall.SIGINT, 15 * time.Second}, // fast: rolls back transactions and writes a checkpoint
	{syscall.SIGQUIT, 5 * time.Second}, // immediate: the next start recovers from the log
	{syscall.SIGKILL, 5 * time.Second},
}

// pollInterval is the time between two polls. It is much shorter than the start of a server, and
// much longer than a poll.
const pollInterval = 5 * time.Millisecond

// clusterName returns a name that identifies the processes of this data directory. No two existing
// directories have the same device and inode, and a copy has a different inode.
func clusterName(data string) (string, error) {
	info, err := os.Stat(data)
	if err != nil {
		return "", fmt.Errorf("reading data directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("reading data directory: the file system does not report the inode")
	}
	return fmt.Sprintf("parley-%x-%016x", stat.Dev, stat.Ino), nil
}

// takeOver ends the server that a killed process has left running in dir. It sends the signals in
// the list ways until the server is gone, and calls warn for each signal. It returns the lock file,
// which the next server will inherit, or ErrInUse if the server cannot be stopped.
func takeOver(ctx context.Context, dir string, ways []stopSignal, warn func(pids []int, signal syscall.Signal)) (*lifecycle.Lock, error) {
	// Processes of the old server have inherited the lock. The lock therefore shows whether such a
	// process is alive, even if the postmaster is not.
	data := filepath.Join(dir, dataDir)
	var lock *lifecycle.Lock
	free := func() (bool, error) {
		var err error
		if lock == nil {
			lock, err = lifecycle.LockFile(filepath.Join(dir, "server.lock"))
		}
		if err != nil {
			if errors.Is(err, lifecycle.ErrLocked) {
				err = nil
			}
			return false, err
		}
		return orphanPostmaster(data) == 0, nil
	}

	for _, way := range ways {
		done, err := free()
		if err == nil && !done {
			signalOrphans(data, way.signal, warn)
			done, err = poll(ctx, way.patience, free)
		}
		if done && err == nil {
			err = removeRecords(data)
		}
		if err != nil {
			if lock != nil {
				err = errors.Join(err, lock.Unlock())
			}
			return nil, err
		}
		if done {
			return lock, nil
		}
	}

	if lock != nil {
		return nil, errors.Join(fmt.Errorf("%w: cannot stop process %d", ErrInUse, orphanPostmaster(data)), lock.Unlock())
	}

	return nil, fmt.Errorf("%w: an unknown PostgreSQL process uses %s", ErrInUse, filepath.Join(dir, "server.lock"))
}

// poll calls the function done repeatedly. It stops when the function returns true or an error,
// when the duration patience has passed, or when the context ends. The result is true if done
// returned true. The error is the error of done, or reports that the context has ended.
func poll(ctx context.Context, patience time.Duration, done func() (bool, error)) (bool, error) {
	over := time.NewTimer(patience)
	defer over.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if yes, err := done(); yes || err != nil {
			return yes, err
		}
		select {
		case <-tick.C:
		case <-over.C:
			return false, nil
		case <-ctx.Done():
			return false, fmt.Errorf("waiting for PostgreSQL: %w", context.Cause(ctx))
		}
	}
}

// signalOrphans sends a signal to the recorded postmaster, which forwards it to its backends.
// SIGKILL cannot be forwarded, and a dead postmaster forwards nothing; in both cases every process
// gets the signal. A backend gets SIGQUIT instead of SIGINT, because SIGINT would only cancel its
// statement.
func signalOrphans(data string, signal syscall.Signal, warn func([]int, syscall.Signal)) {
	name, err := clusterName(data)
	if err != nil {
		return // no data directory, so no server
	}

	pids := []int{orphanPostmaster(data)}
	if pids[0] == 0 || signal == syscall.SIGKILL {
		pids = processIDs()
		if signal == syscall.SIGINT {
			signal = syscall.SIGQUIT
		}
	}

	var signalled []int
	for _, pid := range pids {
		process, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		// The process is opened before the check, so that the signal cannot reach another process
		// that reuses the id.
		if serves(pid, name) && process.Signal(signal) == nil {
			signalled = append(signalled, pid)
		}
	}

	if len(signalled) > 0 {
		warn(signalled, signal)
	}
}

// orphanPostmaster returns the recorded postmaster's id if it is alive and serves
// data, otherwise 0.
func orphanPostmaster(data string) int {
	pid := recordedPostmaster(data).pid
	name, err := clusterName(data)
	if pid == 0 || err != nil || !serves(pid, name) {
		return 0
	}
	return pid
}

// serves reports whether the process belongs to a PostgreSQL server that was started with this
// cluster name.
func serves(pid int, name string) bool {
	line := commandLine(pid)

	// The command line of a postmaster consists of its arguments. The command line of a backend is
	// its process title. Both contain the cluster name.
	program, _, _ := strings.Cut(line, " -D ")
	postmaster := filepath.Base(program) == "postgres"
	backend := strings.HasPrefix(line, "postgres: ") // a process title, which contains the name
	return (postmaster || backend) && strings.Contains(line, name)
}

// postmaster is the content of postmaster.pid.
type postmaster struct {
	pid    int
	status string // "ready" once connections are accepted
}

// recordedPostmaster parses postmaster.pid. It returns the zero value if the file is missing or
// invalid.
func recordedPostmaster(data string) postmaster {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return postmaster{}
	}

	lines := strings.Split(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return postmaster{}
	}

	recorded := postmaster{pid: pid}
	if len(lines) > 7 {
		recorded.status = strings.TrimSpace(lines[7])
	}

	return recorded
}

// removeRecords removes the pid and socket files of a server that is certainly gone. PostgreSQL
// removes these files itself when it starts, unless another process of the same user now has the
// recorded id. In that case PostgreSQL would refuse to start.
func removeRecords(data string) error {
	stale, err := filepath.Glob(filepath.Join(data, ".s.PGSQL.*"))
	if err != nil {
		return fmt.Errorf("listing old sockets: %w", err)
	}
	for _, path := range append(stale, filepath.Join(data, "postmaster.pid")) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing old pid file: %w", err)
		}
	}
	return nil
}

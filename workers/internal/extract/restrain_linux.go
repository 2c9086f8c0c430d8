package extract

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"parley/workers/internal/document"
	"parley/workers/internal/sandbox"
)

const (
	openFiles = 256
	// goShare is the part of the memory that this program's garbage may fill before it is collected more often.
	goShare = 0.6
	// collectAt: documents are read once and are not large, so collecting early only takes time.
	collectAt = 400
)

// failAtLimit reports limit_exceeded and exits when this process reaches its soft limit of processor time. Go ignores SIGXCPU by
// default, and the hard limit, a second later, would kill the process without a word.
func failAtLimit(w *eventWriter) {
	limit := make(chan os.Signal, 1)
	signal.Notify(limit, unix.SIGXCPU)
	go func() {
		<-limit
		if w.last(document.Event{Failure: reached(limitWords[sandbox.LimitCPU])}) != nil {
			os.Exit(1) //nolint:revive // the parse does not end by itself
		}
		os.Exit(0) //nolint:revive // the same
	}()
}

// restrain limits this process and those that it starts. The sandbox limits all of them together; but where it only watches, these
// hold at once. Address space is not limited: Go reserves a lot of it and uses little.
func restrain(l Limits) error {
	seconds := uint64(math.Ceil(l.CPU.Seconds()))
	for _, limit := range []struct {
		name string
		kind int
		soft uint64
		hard uint64
	}{
		{"CPU time", unix.RLIMIT_CPU, seconds, seconds + 1},
		{"memory", unix.RLIMIT_DATA, uint64(l.Memory), uint64(l.Memory)},
		{"size of files", unix.RLIMIT_FSIZE, uint64(l.Files), uint64(l.Files)},
		{"open files", unix.RLIMIT_NOFILE, openFiles, openFiles},
		{"core dumps", unix.RLIMIT_CORE, 0, 0},
	} {
		if err := lower(limit.kind, limit.soft, limit.hard); err != nil {
			return fmt.Errorf("limiting %s: %w", limit.name, err)
		}
	}
	debug.SetMemoryLimit(int64(goShare * float64(l.Memory)))
	debug.SetGCPercent(collectAt)
	return nil
}

// lower sets a limit, unless a lower one is set.
func lower(kind int, soft, hard uint64) error {
	var is unix.Rlimit
	if err := unix.Getrlimit(kind, &is); err != nil {
		return err //nolint:wrapcheck // the caller says what it is about
	}
	return unix.Setrlimit(kind, &unix.Rlimit{Cur: min(is.Cur, soft), Max: min(is.Max, hard)}) //nolint:wrapcheck // the same
}

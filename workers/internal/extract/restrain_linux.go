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
	// goShare is the fraction of the memory limit that Go may use before it collects garbage more
	// often.
	goShare = 0.6
	// gcPercent is high, because documents are small and read only once. More frequent garbage
	// collection would save little memory and cost time.
	gcPercent = 400
)

// failAtLimit installs a handler for the signal SIGXCPU, which the kernel sends at the soft limit
// of processor time. The handler reports limit_exceeded and exits. Without a handler, Go ignores
// the signal, and at the hard limit a second later the process is killed without a report.
func failAtLimit(w *eventWriter) {
	limit := make(chan os.Signal, 1)
	signal.Notify(limit, unix.SIGXCPU)
	go func() {
		<-limit
		if w.last(document.Event{Failure: limitReached(limitWords[sandbox.LimitCPU])}) != nil {
			os.Exit(1) //nolint:revive // the parser is still running and cannot be stopped
		}
		os.Exit(0) //nolint:revive // the parser is still running and cannot be stopped
	}()
}

// restrain sets resource limits for this process and its children. They apply immediately, while
// the sandbox, which limits all processes together, may measure usage only at intervals. restrain
// does not limit the address space, because Go reserves much more of it than it uses.
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
	debug.SetGCPercent(gcPercent)
	return nil
}

// lower sets a resource limit, unless the current limit is already lower.
func lower(kind int, soft, hard uint64) error {
	var is unix.Rlimit
	if err := unix.Getrlimit(kind, &is); err != nil {
		return err //nolint:wrapcheck // the caller names the limit
	}
	return unix.Setrlimit(kind, &unix.Rlimit{Cur: min(is.Cur, soft), Max: min(is.Max, hard)}) //nolint:wrapcheck // as above
}

package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// killMarked kills all processes whose environment contains the mark, even if they have moved to
// another process group, session or parent. It works only on systems where /proc shows the
// environments of processes.
func killMarked(mark string) {
	// Several rounds are necessary, because a process may start a child before the process is
	// killed.
	for range 5 {
		if killRound(mark) == 0 {
			return
		}
	}
}

// killRound kills the marked processes that exist now, and returns their number.
func killRound(mark string) (killed int) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return 0 // never happens: Glob fails only for malformed patterns, and this one is valid
	}

	for _, path := range environments {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		process, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		// Read the environment after opening the process, so that the signal cannot reach another
		// process that reuses the id.
		environment, err := os.ReadFile(path)
		if err == nil && hasPair(environment, mark) && process.Kill() == nil {
			killed++
		}
		_ = process.Release()
	}

	return killed
}

// hasPair reports whether mark is one of the NUL-terminated pairs of an environment.
func hasPair(environment []byte, mark string) bool {
	for pair := range bytes.SplitSeq(environment, []byte{0}) {
		if string(pair) == mark {
			return true
		}
	}
	return false
}

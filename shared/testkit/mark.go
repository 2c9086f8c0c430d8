package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// killMarked kills the processes with the mark in their environment, even if they have moved to
// another process group, session or parent. It works only if /proc shows the environments of
// processes.
func killMarked(mark string) {
	// Several rounds are necessary, because a process may start another one before it is killed.
	for range 5 {
		if killRound(mark) == 0 {
			return
		}
	}
}

// killRound kills the marked processes and returns their number.
func killRound(mark string) (killed int) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return 0 // unreachable: only a malformed pattern is an error, and this pattern is valid
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
		// The environment is read after the process is opened, so that the signal cannot reach
		// another process that reuses the id.
		environment, err := os.ReadFile(path)
		if err == nil && hasPair(environment, mark) && process.Kill() == nil {
			killed++
		}
		_ = process.Release()
	}

	return killed
}

// hasPair reports whether mark is one of the NUL-terminated pairs.
func hasPair(environment []byte, mark string) bool {
	for pair := range bytes.SplitSeq(environment, []byte{0}) {
		if string(pair) == mark {
			return true
		}
	}
	return false
}

package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// killMarked kills what carries the mark in its environment, wherever it has moved since:
// to another process group, session or parent. Only where /proc shows environments.
func killMarked(mark string) {
	// In rounds: what is being killed may just have started something.
	for range 5 {
		if killRound(mark) == 0 {
			return
		}
	}
}

// killRound tells how many it has killed.
func killRound(mark string) (killed int) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return 0 // a malformed pattern, and this one is constant
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
		// Read after the process was opened: the signal cannot reach a later owner of the id.
		environment, err := os.ReadFile(path)
		if err == nil && carries(environment, mark) && process.Kill() == nil {
			killed++
		}
		_ = process.Release()
	}
	return killed
}

// carries tells whether mark is one of the pairs, which end with a zero byte each.
func carries(environment []byte, mark string) bool {
	for pair := range bytes.SplitSeq(environment, []byte{0}) {
		if string(pair) == mark {
			return true
		}
	}
	return false
}

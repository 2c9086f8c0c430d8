package pgserver

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// locale sorts by code point and knows every letter's case; it needs nothing installed.
const locale = "C.UTF-8"

// inheritedData is data/ as the started process sees it: the first of its extra files.
// Unlike a path it works however closed the directories above are.
const inheritedData = "/proc/self/fd/3"

// commandLine is the process's arguments, joined by spaces; empty when it is gone. Unlike
// /proc/<pid>/cwd and exe it is readable by all, in containers without privileges too.
func commandLine(pid int) string {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(bytes.ReplaceAll(line, []byte{0}, []byte{' '}), " "))
}

// processIDs lists all processes of the machine that this one can see.
func processIDs() []int {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // a malformed pattern, and this one is constant
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

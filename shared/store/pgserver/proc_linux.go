package pgserver

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// locale sorts by code point and handles the case of every letter. It requires no installed locale.
const locale = "C.UTF-8"

// inheritedData is the path of data/ in the started process: the first of its extra files. Unlike
// the real path, it works even if the account cannot enter the parent directories.
const inheritedData = "/proc/self/fd/3"

// commandLine returns the arguments of a process, joined by spaces, or "" if the process is gone.
// Unlike /proc/<pid>/cwd and exe, the arguments are readable for every user, even in unprivileged
// containers.
func commandLine(pid int) string {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(bytes.ReplaceAll(line, []byte{0}, []byte{' '}), " "))
}

// processIDs returns the ids of all processes that are visible in /proc.
func processIDs() []int {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // never happens: Glob fails only for malformed patterns, and this one is valid
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

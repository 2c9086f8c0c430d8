//go:build !linux

package pgserver

import (
	"os/exec"
	"strconv"
	"strings"
)

// locale is the locale of a new cluster.
const locale = "en_US.UTF-8"

// inheritedData is empty on this system, so the server's account must be able to reach the data
// directory by its path.
const inheritedData = ""

// commandLine returns the arguments of a process, joined by spaces, or "" if the process is gone.
func commandLine(pid int) string {
	output, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(output))
}

// processIDs lists the ids of all processes on the machine.
func processIDs() []int {
	output, err := exec.Command("ps", "-axo", "pid=").Output()
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(output)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

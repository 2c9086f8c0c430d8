package bubblewrap

import (
	"os"

	"parley/workers/internal/sandbox"
)

// Usage returns the sandbox's current usage or, if the sandbox has ended, its final usage.
func (x *box) Usage() (sandbox.Usage, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.final {
		return x.last, nil
	}

	// The priority is lowered here, during a measurement, so that no sandbox needs a goroutine for
	// it.
	err := x.measure()
	if x.givesWay && x.last.CPU >= sandbox.GiveWayAfter {
		x.givesWay = false
		if x.group != nil {
			_ = x.group.GiveWay() // after an error, the group keeps its share of the processors
		}
		giveWay(x.cmd.Process.Pid)
	}
	return x.last, err
}

// measure updates the sandbox's usage. The number of processes excludes bwrap. CPU and Memory
// include bwrap.
func (x *box) measure() error {
	var u sandbox.Usage
	var err error
	if x.group != nil {
		u, err = x.group.Usage()
	} else {
		u, err = x.tree.Usage(x.limits.Memory)
	}
	if err != nil {
		return err
	}

	u.CPU = max(u.CPU, x.last.CPU) // keep the CPU time of processes that have exited
	u.Processes = max(0, u.Processes-1)
	u.Files, u.FileCount = x.measureFolders()
	x.last = u
	return nil
}

// measureFolders returns the total usage of the writable folders. It opens the folders as soon as
// they exist.
func (x *box) measureFolders() (bytes int64, count int) {
	if x.folders == nil {
		x.folders = openFolders(x.cmd.Process.Pid, x.owner, folderSize(x.limits))
	}
	for _, f := range x.folders {
		b, c := folderUsage(f)
		bytes += b
		count += c
	}
	return bytes, count
}

// finalizeUsage reads the final usage and closes the folders. A cgroup still reports the usage
// after all of its processes have exited.
func (x *box) finalizeUsage() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if u := x.last; x.group != nil && x.measure() == nil {
		x.last.Files, x.last.FileCount = max(u.Files, x.last.Files), max(u.FileCount, x.last.FileCount)
	}
	if ended := x.cmd.ProcessState; x.group == nil && ended != nil { // a short program may have ended before its usage was measured
		x.last.CPU = max(x.last.CPU, ended.UserTime()+ended.SystemTime())
	}
	x.last.Processes = 0
	x.final = true
	closeAll(x.folders)
	x.folders = nil
}

// closeAll closes folders that were opened only as paths.
func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // no data can be lost
	}
}

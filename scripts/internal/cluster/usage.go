package cluster

import "github.com/prometheus/procfs"

// Usage is the resource usage of a process.
type Usage struct {
	PID         int
	Memory      int64 // resident memory in bytes
	Descriptors int
}

// Usage returns the resource usage of the part's process. It returns false while the part is down.
func (p *Part) Usage() (Usage, bool) {
	pid := p.PID()
	if pid == 0 {
		return Usage{}, false
	}

	process, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, false
	}
	open, errOpen := process.FileDescriptorsLen()
	stat, errStat := process.Stat()
	return Usage{PID: pid, Memory: int64(stat.ResidentMemory()), Descriptors: open}, errOpen == nil && errStat == nil
}

package gvisor

import "syscall"

// attributes returns the attributes of a sandbox's first process. It dies with the worker's thread
// and does not receive signals of the worker's terminal.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}

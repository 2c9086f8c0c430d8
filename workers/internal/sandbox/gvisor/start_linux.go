package gvisor

import "syscall"

// attributes returns the process attributes of a sandbox's first process. That process dies
// together with the worker's thread and does not receive signals from the worker's terminal.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}

package gvisor

import "syscall"

// attributes are those of a sandbox's first process: it dies with the worker's thread, and what a terminal sends to the worker is
// not for it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}

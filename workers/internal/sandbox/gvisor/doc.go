// Package gvisor runs commands in gVisor: a kernel in user space (runsc's sentry) answers their
// system calls instead of the host's.
//
//	worker ─► unshare ─► runsc, first process of a PID namespace ─┬─► gofer: opens the few folders of the host, read-only
//	                                                             └─► sentry ─► the sandbox's processes, as the host sees them
//
// Everything runs in that namespace. When runsc dies, the kernel ends the rest before any process
// is notified, so nothing can be left. Each process in the drawing dies with the one before it
// (PR_SET_PDEATHSIG), the first with the worker. runsc's files are in a separate folder, below one
// that the worker has locked. Opening a Backend removes unlocked folders.
package gvisor

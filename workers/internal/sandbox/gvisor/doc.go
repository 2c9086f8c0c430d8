// Package gvisor runs commands in gVisor: their system calls are answered by a kernel in user space (runsc's sentry), not by the
// host's.
//
//	worker ─► unshare ─► runsc, first process of a PID namespace ─┬─► gofer: opens the few folders of the host, read-only
//	                                                             └─► sentry ─► the sandbox's processes, as the host sees them
//
// All of it lives in that namespace: when runsc dies, the kernel ends the rest before anybody is told, so nothing can be left.
// Each arrow dies with its beginning (PR_SET_PDEATHSIG), the first with the worker. What runsc keeps on disk is in a folder of its
// own, below one that the worker has locked: whoever opens a Backend removes those that nobody has locked.
package gvisor

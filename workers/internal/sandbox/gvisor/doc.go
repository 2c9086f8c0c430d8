// Package gvisor runs commands in gVisor: a kernel in user space (runsc's sentry) handles their
// system calls instead of the host's kernel. It implements sandbox.Backend. Its isolation is
// stronger than that of package bubblewrap, and its sandboxes take longer to start.
//
//	worker ─► unshare ─► runsc, first process of a PID namespace ─┬─► gofer: opens the few folders of the host, read-only
//	                                                             └─► sentry ─► the sandbox's processes, as the host sees them
//
// runsc and all processes that it starts are in that namespace. When runsc dies, the kernel ends
// the other processes of the namespace before any process is notified, so no process can be left.
// Each process in the diagram dies together with the process before it (PR_SET_PDEATHSIG), and
// unshare dies with the worker. runsc's files are in a folder of their own, below a folder that the
// worker has locked. Opening a Backend removes unlocked folders.
//
// gVisor's kernel limits the number of processes and the files of a program. The host limits memory
// and processor time with a cgroup (package cgroup) or, without cgroups, only measures them
// (package proctree).
package gvisor

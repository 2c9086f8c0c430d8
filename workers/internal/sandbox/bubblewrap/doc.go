// Package bubblewrap makes sandboxes of Linux namespaces with bwrap.
//
// A sandbox has namespaces of its own of every kind, no network, no capabilities, a filter of system calls (package seccomp),
// and sees, read-only, the interpreter with its libraries and little else: no /proc, nothing of /home, /var or /run. /work, /tmp
// and /dev/shm can be written to; they are memory, and limited. Its environment is what the command is given, and PWD.
//
//	worker ─► bwrap (process 1 of a process namespace, dies with the worker's starting thread)
//	            └─► the command (process 1 of a second one)
//
// The outer namespace is why nothing can outlive the worker or a Kill: the kernel ends a namespace with its first process, at
// whatever moment that dies. The inner one is why a program cannot end or stop its keeper: signals of its own namespace do not
// reach the first process, other than those that it handles. As the first process the command must wait for orphans.
package bubblewrap

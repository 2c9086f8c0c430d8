// Package bubblewrap creates sandboxes from Linux namespaces with bwrap.
//
// A sandbox has its own namespaces of every kind, no network, no capabilities and a filter of
// system calls (package seccomp). It sees the interpreter with its libraries (read-only) and little
// else: no /proc, and nothing from /home, /var or /run. /work, /tmp and /dev/shm are writable; they
// are in memory and limited in size. The environment contains the command's variables and PWD.
//
//	worker ─► bwrap (process 1 of a PID namespace, dies with the worker's starting thread)
//	            └─► the command (process 1 of a second one)
//
// Because of the outer namespace, nothing can outlive the worker or a Kill: the kernel ends a
// namespace together with its first process, whenever that process dies. Because of the inner
// namespace, a program can neither kill nor stop bwrap: signals from within a namespace reach its
// first process only if that process handles them. As the first process of its namespace, the
// command must reap orphans.
package bubblewrap

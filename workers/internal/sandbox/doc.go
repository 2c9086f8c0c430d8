// Package sandbox runs untrusted programs so that they can reach neither the host nor the network
// nor each other. A backend isolates them: bubblewrap, or the stronger gvisor. Each sandbox is used
// once.
//
//	tool/codeexec ─► python ─► sandbox.Backend ─┬─ bubblewrap ─► seccomp
//	                   │                        └─ gvisor ─────► seccomp (its rules in OCI format)
//	                   │        both ─► host: the visible part of the machine, rights, streams
//	                   │        both ─► cgroup: limits and usage of all processes together, if the kernel permits it;
//	                   │                otherwise processes are measured through /proc and killed above a limit
//	                   └─ a pool of boxes with a started interpreter, each for one program
//
// A backend that does not work on this machine fails when it is opened. There is no fallback to
// weaker isolation.
package sandbox

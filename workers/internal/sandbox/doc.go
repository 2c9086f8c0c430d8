// Package sandbox runs programs that nobody vouches for, so that they can reach neither the host nor the network nor one
// another. What isolates them is a backend: bubblewrap, or gvisor as the stronger one. Each sandbox is used once.
//
//	tool/codeexec ─► python ─► sandbox.Backend ─┬─ bubblewrap ─► seccomp
//	                   │                        └─ gvisor ─────► seccomp (its rules, as OCI has them)
//	                   │        both ─► host: what is shown of the machine, rights, streams
//	                   │        both ─► cgroup: limits and usage of all processes together, where the kernel gives them;
//	                   │                else the processes are counted (/proc), and ended when they exceed a limit
//	                   └─ a pool of boxes with the interpreter started, each for one program
//
// A backend that does not hold on this machine says so when it is opened; there is no weaker way to fall back on.
package sandbox

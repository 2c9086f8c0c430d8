// Package cgroup limits and measures all processes of a sandbox together, if the kernel lets this
// process create cgroups. It uses version 2 if the memory and pids controllers are delegated to
// this process, and otherwise version 1. Without cgroups, the backends use package proctree.
//
// All cgroups are created below the cgroup of this process, in one folder for each Root:
//
//	<own cgroup>/parley-<pid>-<random>/   the folder of a Root, locked (flock) while its process lives
//	<own cgroup>/parley-<pid>-<random>/7  a Group: one sandbox
//	<own cgroup>/parley-main              version 2 only: this process moves here, because a cgroup that
//	                                      delegates controllers must not contain processes
//
// An unlocked folder was left by a process that died. The next process that opens a Root removes
// it.
//
// In version 1, each controller may have a hierarchy of its own. A Root and its Groups then have a
// folder in each hierarchy; see part.
package cgroup

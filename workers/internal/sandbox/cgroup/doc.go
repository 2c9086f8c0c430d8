// Package cgroup limits and counts all processes of a sandbox together, where the kernel lets this process make cgroups:
// of version 2 when its memory and pids controllers are given to us, else of version 1.
//
// Everything is made below the cgroup that this process lives in, in one folder a Root:
//
//	<own cgroup>/parley-<pid>-<random>/   a Root's, locked (flock) as long as its process lives
//	<own cgroup>/parley-<pid>-<random>/7  a Group: one sandbox
//	<own cgroup>/parley-main              version 2 only: where this process has moved to, for a cgroup that hands
//	                                      controllers on to others may have no processes of its own
//
// A folder that nobody has locked was left by a process that died: whoever opens a Root next removes it.
package cgroup

// Package proctree counts and ends a process and all that it has started, as /proc shows them: what is left where no cgroup
// can be had.
//
// A process is known by its number and the time of its start together, for numbers are given again. Who has left the tree
// (its parent died, and init has adopted it) is not found: a sandbox keeps such processes in a PID namespace, whose first
// process adopts them.
package proctree

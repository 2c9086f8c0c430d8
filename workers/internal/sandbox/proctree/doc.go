// Package proctree measures and kills a process and all processes that it has started, using /proc.
// It is used if cgroups are unavailable.
//
// A process is identified by its pid together with its start time, because pids are reused. A
// process that has left the tree, because its parent died and init adopted it, is not found. A
// sandbox therefore keeps its processes in a PID namespace, whose first process adopts orphans.
package proctree

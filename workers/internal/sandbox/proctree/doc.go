// Package proctree measures and kills a process and all processes that it has started, using /proc.
// It is used if cgroups are unavailable.
//
// A process is identified by its pid together with its start time, because pids are reused. A
// process leaves the tree when its parent dies and init adopts it; it is then not found. A sandbox
// therefore keeps its processes in a PID namespace, whose first process adopts orphans.
//
// Processes may start and end while /proc is read, so Kill repeats its work until a round finds
// nothing.
package proctree

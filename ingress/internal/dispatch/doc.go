// Package dispatch accepts runs, rings for them and awaits their results.
//
// A run is accepted by a grouped, committed insert and only then rung for on the bus, so
// that whatever is lost afterwards the sweeper finds the row. Requests that wait are of two
// kinds, and both end in the same map of waiters:
//
//	owner     accepted the run here: the worker replies to this process's inbox
//	attacher  found a run that is open: it watches runs.done.<run_id> and then reads the row
//
// Behind both stands one poll per process for all waiters together, for replies that were lost. A wait ends with its
// run, or when that comes to wait for a person itself; an empty reply and a notice say no more than to look at the row.
package dispatch

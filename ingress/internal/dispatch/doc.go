// Package dispatch accepts runs, publishes their jobs, and waits for their results.
//
// A run is accepted when the transaction that inserts it commits. One transaction can insert
// several runs. The job message is published after the commit. If the message is lost, the sweeper
// finds the run's row and publishes the job again.
//
// A waiting request is an owner or an attacher:
//
//	owner     accepted the run in this process: the worker replies to the process's inbox
//	attacher  found an open run: it subscribes to runs.done.<run_id>, then reads the row
//
// Both kinds of requests are in one map. Because replies can be lost, one poll per process reads
// the rows of the runs for which requests wait. A wait ends when the run finishes or starts to wait
// for a person. An empty reply, or a done notice, only causes the row to be read.
package dispatch

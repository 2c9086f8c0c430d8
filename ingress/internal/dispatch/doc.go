// Package dispatch accepts runs, publishes their jobs, and waits for their results.
//
// A run is accepted when the transaction that inserts it commits. One transaction can insert
// several runs. The job message is published after the commit. If the message is lost, the sweeper
// finds the run's row and publishes the job again.
//
// There are two kinds of requests that wait for a run:
//
//	owner     accepted the run in this process: the worker replies to the process's inbox
//	attacher  found an open run: it subscribes to runs.done.<run_id>, then reads the row
//
// One map contains the waits of both kinds. Replies can be lost, so each process also polls the
// rows of the runs for which its requests wait. A wait ends when its run finishes or begins to wait
// for a person. An empty reply and a done notice contain no result: they make the process read the
// row.
package dispatch

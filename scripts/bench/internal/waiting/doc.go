// Package waiting measures what a client that waits costs the ingress in memory, whether each
// of thousands gets its own answer in the end, and how fast tokens reach those that watch.
//
//	clients ──run-automation, chat, streams──▶ ingress ··· worker ──▶ model, which holds its answers back
//	clients ──post──▶ floor-parked: the same requests, parked in a handler each
//
// A round starts new processes of Parley, for what a process of Go has once filled it seldom gives back.
// Each of its stages is the memory that a process has filled once that has settled: before, with
// idle connections, with a waiting request on each of them, and with streams besides. Then the
// model answers, and every client checks that it gets the answer to its own message, once.
//
// In the end the last round's ingress has streams of runs which the model holds, and the bench
// publishes their tokens as a worker does; beside them stand as many bare subscribers of NATS.
package waiting

// Package load is the client that both sides of a comparison are measured with.
//
// It is to cost as little as it can, for it runs on the machine that it measures: each of its
// connections writes one prebuilt HTTP/1.1 request in which only the key changes, and reads
// the answer in place.
//
//	connection 1   request ──▶ answer, request ──▶ answer, …     closed loop: the next
//	connection 2   request ──▶ answer, request ──▶ answer, …     request follows the answer
//	               ├─ warm-up ─┼──────── measured ────────┤
//
// With Arrivals requests are sent when they are due, whether or not those before have been answered, each by a
// connection that is free or new. Latency counts from that moment: a service that stalls is seen by all that arrive meanwhile.
//
//	due            │  │        ││       │              open loop: the moments
//	connection 1   request ─────▶ answer, request ──▶  are a Poisson process
//	connection 2      request ──▶ answer
//
// Run does it in this process. The benches start it in a process of its own (Client), which
// reads a Spec from standard input and writes a Result to standard output, so that its CPU
// time is told from the servers'.
package load

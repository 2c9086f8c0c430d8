// Package load is the clients that ask the sides of a comparison.
//
// Execute sends requests in a closed loop. It costs as little as it can, because it runs on the machine that it measures: a client
// prepares one request, in which only the key changes.
//
//	client 1   request ──▶ answer, request ──▶ answer, …     the next request
//	client 2   request ──▶ answer, request ──▶ answer, …     follows the answer
//	           ├─ warm-up ─┼──────── measured ────────┤
//
// Request is a single request, and Transcript an event stream that the bench reads.
package load

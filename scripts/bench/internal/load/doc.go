// Package load sends requests to the sides of a comparison.
//
// Execute sends requests in a closed loop. It uses as little CPU time as possible, because it runs on the measured machine:
// a client prepares one request and changes only the key.
//
//	client 1   request ──▶ answer, request ──▶ answer, …     the next request
//	client 2   request ──▶ answer, request ──▶ answer, …     follows the answer
//	           ├─ warm-up ─┼──────── measured ────────┤
//
// Request is a single request, and Transcript an event stream that the bench reads.
package load

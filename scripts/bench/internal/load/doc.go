// Package load sends requests to the sides of a comparison.
//
// Execute sends requests in a closed loop. It uses as little CPU time as possible, because it runs on the measured machine:
// a client prepares one request and changes only the key.
//
//	client 1   request ──▶ answer, request ──▶ answer, …     the next request
//	client 2   request ──▶ answer, request ──▶ answer, …     follows the answer
//	           ├─ warm-up ─┼──────── measured ────────┤
//
// ReadStreams does the same with streamed answers and measures the time to their first piece.
// Request is a single request.
package load

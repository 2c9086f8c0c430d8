// Package load sends requests to both sides of a comparison and measures the responses.
//
// Execute sends requests in a closed loop: a client sends its next request after the previous
// response. Execute runs on the measured machine, so it must use little CPU time. A client
// therefore prepares one request, and changes only the key from one request to the next.
//
//	client 1   request ──▶ answer, request ──▶ answer, …     the next request
//	client 2   request ──▶ answer, request ──▶ answer, …     follows the answer
//	           ├─ warm-up ─┼──────── measured ────────┤
//
// ReadStreams sends requests for streamed answers and measures the time to the first piece of each.
// A Request is a single request outside a load.
package load

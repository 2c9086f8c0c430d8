// Package httpapi is the HTTP API of the service. router.go collects the route table from the
// feature packages. Their handlers decode and check a request, call a store or a worker, and write
// the response.
//
// A request passes these stages, and each of them may respond with problem+json:
//
//	observe ──► gate ────────────────────────────────────────────► handler
//	request id, who calls? (auth), demo limit, cross-origin        decode (strict JSON)
//	log, metrics, writes, query, role, rate limit                  call, WriteJSON
//	panics
//
// Handlers pass their errors to httpx.Fail, which shows callers the errors that have an error code
// and hides the details of all others. The request's httpx.State contains the caller and the ids
// for the request's log line.
package httpapi

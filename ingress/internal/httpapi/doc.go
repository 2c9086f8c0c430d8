// Package httpapi is the HTTP API of the service. router.go collects the route table from the
// feature packages. Their handlers decode and check a request, call a store or a worker, and write
// the response.
//
// A request passes these stages in order, and each of them may respond with problem+json:
//
//	observe  request id, log, metrics, panics
//	admit    credential (auth), demo limit, writes from other origins, query, role, rate limit
//	handler  decoding (strict JSON), call of a store or worker, response (WriteJSON)
//
// Handlers pass their errors to httpx.Fail, which responds with the error if it has an error code,
// and hides the details of all other errors. The request's httpx.State contains the caller and the
// ids for the request's log line.
package httpapi

// Package httpapi is the HTTP face of the service: router.go collects the route table from the features, and each
// feature is a package whose handlers bind, validate, call and render.
//
// A request passes these stations, and any of them may answer with problem+json:
//
//	observe ──► gate ────────────────────────────────────────────► handler
//	request id, who calls? (auth), demo limit, cross-origin        bind (strict JSON)
//	log, metrics, writes, query, role, rate limit                  call, WriteJSON
//	panics
//
// Handlers return errors to one place, httpx.Fail, which shows callers coded errors and
// nothing of any other. What a request is about (caller, ids for the log) is kept in
// its httpx.State.
package httpapi

// Package searchserver executes the document searches that ingresses request over the bus.
//
//	request ─► signed claims? ─┬─ no ──► refused
//	                           └─ yes ─► free slot for the organization ─► search ─► passages, or "unavailable"
//
// The claims are signed together with the request. Only they determine the organization whose
// documents are searched.
package searchserver

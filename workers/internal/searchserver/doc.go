// Package searchserver executes searches in documents. Ingresses request them over the bus.
//
//	request ─► signed claims? ─┬─ no ──► refused
//	                           └─ yes ─► free slot for the organization ─► search ─► passages, or "unavailable"
//
// The claims are signed together with the request. They alone determine the organization whose
// documents are searched.
package searchserver

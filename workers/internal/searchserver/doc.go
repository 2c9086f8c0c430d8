// Package searchserver answers searches of documents that ingresses ask for over the bus, as tool workers answer tool calls.
//
//	refused ◄── signed claims? ── accepted ── a place for its organization? ── search ──► what was found, or unavailable
//
// Whose documents are searched is told by the claims alone, which are signed together with the request.
package searchserver

// Package signed serves requests that ingresses send over the bus with signed claims.
//
//	request ─► claims ─┬─ not signed with this body, expired, for another kind, without what they must name ──► refused
//	                   └─ valid ─► free slot for the organization ─► Handle ─► reply
//
// The claims are signed together with the body. They alone determine the organization.
package signed

// Package embedserver embeds texts that ingresses send over the bus, for clients of /v1/embeddings.
//
//	request ─► signed claims? ─┬─ no ──► refused
//	                           └─ yes ─► free slot for the organization ─► budgets ─► model ─► usage ─► vectors
//
// Only tool workers have the key of the embeddings service. The claims are signed together with the
// request and name the organization and the key that are charged.
package embedserver

// Package embedserver computes embedding vectors for clients of /v1/embeddings. Ingresses send the
// texts over the bus.
//
//	request ─► signed claims? ─┬─ no ──► refused
//	                           └─ yes ─► free slot for the organization ─► budgets ─► model ─► usage ─► vectors
//
// Only tool workers have the key of the embeddings service. The signed claims name the organization
// and the API key that are charged. The signature also covers the request.
//
// A request is charged before the call with an upper bound, and afterwards with the actual usage.
// It is never repeated here. Texts and vectors are neither stored nor logged. Package signed
// implements the protocol, the slots and the queue.
package embedserver

// Package embedserver computes embedding vectors for clients of /v1/embeddings. Ingresses send the
// texts over the bus.
//
//	request ─► signed claims? ─┬─ no ──► refused
//	                           └─ yes ─► free slot for the organization ─► budgets ─► model ─► usage ─► vectors
//
// Only tool workers have the key of the embeddings service. The signed claims name the organization
// and the API key that are charged. The signature also covers the request.
//
// An upper bound for the usage is charged before the call, and replaced with the actual usage
// afterwards. This package never repeats a request. Texts and vectors are neither stored nor
// logged. Package signed implements the protocol, the slots and the queue.
package embedserver

// Package retrieval searches an organization's documents.
//
//	                 ┌─ text: the words as indexed ──────────────────────────┐
//	query ─► words ──┼─ trigram: similar words, for unknown ones ────────────┼─► ranks fused ─► passages ─► supported?
//	          │      └─ vector: similar meaning (embeddings service) ────────┘
//	          └─► how frequent are they?
//
// Each source is one query, and all sources are queried in parallel. The service that computes the
// vector of the query may be slow or unavailable. A search waits for it for a limited time, and
// otherwise reports that it ran without vectors.
//
// A search for an agent returns only passages that are related to the query; see support.
package retrieval

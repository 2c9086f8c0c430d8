// Package retrieval searches an organization's documents.
//
//	                 ┌─ text: the words, as they are indexed ───────────────┐
//	query ─► words ──┼─ trigram: words that are alike, for unknown ones ────┼─► ranks fused ─► passages ─► supported?
//	          │      └─ vector: what means the same (embeddings service) ───┘
//	          └─► how frequent are they?
//
// Each source is one query, all of them at the same time. The service that makes the query's vector may be slow or away: a search
// waits for it for no longer than a bound, and says then what it was made without.
//
// A search for an agent keeps only passages that have to do with the query: see support.
package retrieval

// Package embed computes embedding vectors of texts with a service that implements OpenAI's API.
//
//	texts ─► truncated to the model's input ─► batches ─► service ─► checked: one vector for each text, all of one size ─► length 1
//
// The package validates all responses. A failure is an *llm.Error, which states whether a retry may
// help. Errors contain neither the key nor any text.
//
// An Embedder has two methods for different callers. Embed is for the texts of documents and
// searches, whose vectors are compared with each other; see packages ingest and retrieval. Compute
// is for clients of the API, which receive the vectors as the service sends them; see package
// embedserver.
package embed

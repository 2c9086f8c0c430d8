// Package embed computes embedding vectors of texts with a service that implements OpenAI's API.
//
//	texts ─► truncated to the model's input ─► batches ─► service ─► checked: one vector for each text, all of one size ─► length 1
//
// The package validates all responses. A failure is an *llm.Error, which states whether a retry may
// help. Errors contain neither the key nor any text.
//
// Two callers use an Embedder differently. Embed is for documents and searches, which package
// ingest and package retrieval compare with each other. Compute is for clients of the API, which
// receive the vectors as the service sends them; see package embedserver.
package embed

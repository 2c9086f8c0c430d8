// Package embed turns texts into vectors, by an embeddings service that speaks OpenAI's protocol.
//
//	texts ─► cut to what models read ─► batches ─► service ─► checked: each text one vector, of one size, of numbers ─► length 1
//
// The service is foreign: what it answers is believed only as far as it can be used. A failure is an *llm.Error, which says
// whether time may cure it; neither the key nor a text is ever in one.
package embed

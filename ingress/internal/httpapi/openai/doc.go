// Package openai handles requests in the format of OpenAI's HTTP API: models, chat completions,
// responses and embeddings. Clients are OpenAI's own libraries and programs that use them. Voice is
// in package voice.
//
// The format itself is in package openaiapi, which converts without any network or database access.
// This package connects it with runs:
//
//	request ─► openaiapi (parse) ─► v1Submission ─► run.Handler (accept) ─► wait or stream ─► openaiapi (encode)
//
// An agent is a "model" and a run is a "completion" or "response" of this API. The id of a response
// is derived from the id of its run. The package stores only those fields of a request that the
// response repeats; they are in the run's row.
//
// OpenAI's clients repeat failed requests automatically. Errors therefore say whether a repetition
// is useful (X-Should-Retry), and package readers connects a repetition with the run of the first
// request. Embeddings are computed by workers and create no run.
package openai

// Package llm defines the interface to language models: [Model], its messages and responses, and
// [Error], whose message may be shown to callers.
//
// Its subpackages contain:
//
//   - openai and anthropic: real models, on the common base remote
//   - breaker: circuit breakers for failing models
//   - offline: a substitute that needs no key
//   - scripted: a model that plays a script, for tests
//   - llmtest: the common tests of all models
//   - providers: the setup of a [Registry]
//
// A [Registry] resolves an agent's model and its fallbacks to one [Model]; see [WithFallbacks].
// [Budget] limits the retries of a process. [Prices] computes the cost of a call.
//
// A call of Stream ends in one of three ways:
//
//	            ┌──► Response: complete; the concatenated deltas are Response.Text
//	Stream ─────┼──► *Error:   classified; Retryable reports whether a retry may succeed
//	            └──► the context's error: the caller gave up, which says nothing about the model
//
// A truncated stream is an *Error, never a shorter Response. A truncated tool call is never
// returned, because the first part of the arguments can be valid JSON with another meaning.
//
// Untrusted input, such as tool results and data sent with a run, is kept separate from the
// message. It is rendered in JSON that is marked as untrusted; see [RenderUser] and
// [RenderToolResult].
package llm

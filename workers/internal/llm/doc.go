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
// [Budget] bounds the retries of a process. [Prices] computes the cost of an answer.
//
// A call of Stream ends in one of three ways:
//
//	            ┌──► Response: complete; the concatenated deltas are Response.Text
//	Stream ─────┼──► *Error:   classified; Retryable reports whether a retry may succeed
//	            └──► the context's error: the caller gave up, which says nothing about the model
//
// A stream that breaks off is an *Error, never a short Response. A truncated tool call is never
// returned, because a part of an argument list can be valid JSON with another meaning.
//
// Untrusted input (tool results, data sent with a run) is kept separate from the message. It is
// rendered inside a JSON envelope marked untrusted; see [RenderUser] and [RenderToolResult].
package llm

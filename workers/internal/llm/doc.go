// Package llm is what the turn loop knows of language models: one interface, [Model],
// the messages that go in, the answer that comes out, and one error type whose
// message may be shown to callers.
//
// Packages below it speak to real models (openai, anthropic, on what remote has for
// both), keep calls away from those that fail (breaker), stand in for one without a key
// (offline), play a script in tests (scripted), and hold every one of them to the
// same rules (llmtest). Package providers wires them into a [Registry], which gives an
// agent's model together with its fallbacks as one: see [WithFallbacks]. [Budget] bounds
// the retries of a process, [Prices] says what an answer cost.
//
// A call of Stream ends in one of three ways:
//
//	            ┌──► Response: complete; the deltas put together are Response.Text
//	Stream ─────┼──► *Error:   classified; Retryable says whether later may be better
//	            └──► the context's error: the caller gave up, nothing is said about the model
//
// A stream that breaks off is an *Error, never a short Response, and a tool call that
// was cut is never handed out: half an argument list can be valid JSON and mean
// something else.
//
// What comes from outside (tool results, data sent with a run) is carried apart from
// the message and rendered inside a JSON envelope marked untrusted; see [RenderUser]
// and [RenderToolResult].
package llm

// Package agentloop executes the turns of a run: it calls a model, executes the tools that the
// model requests, and repeats until the model answers. The package uses no bus, database or HTTP;
// it stores steps through a [Journal] and reports progress through a callback for events.
//
//	            ┌────────────── result recorded, more calls? ◄─┐
//	            ▼                                              │
//	load ─► model turn ──requests tools──► turn recorded ──► tool call
//	            │
//	            └──no tools──► Output (not recorded: the caller saves it with the run's result)
//
// The loop records every model turn that requests tools, and every tool call, as a [Step] before it
// continues. A worker that takes over a run loads the steps and continues after the last one. No
// recorded model call is paid for twice, and no recorded tool call is executed twice. Work that was
// started but not recorded is repeated.
//
// Consecutive calls of a turn that have no side effect run concurrently. Their results are recorded
// and reported in the order of the calls. If a call needs a person's decision, Run returns
// [*Parked]. After the decision, the next Run repeats the call. A call is never executed if the
// model may have written only a part of it. A turn has a limit on its calls, and the calls beyond
// it fail. If the run reaches its own limit on calls, the run fails.
//
// The text of a run consists of the texts of its turns, separated by empty lines. The concatenated
// message.delta events are the same text. The model receives tool results, and data sent with the
// message, marked as untrusted.
//
// Sources have numbers that increase through the session. A number in brackets in the answer, with
// or without a quote, becomes a citation, which links the words before the number to words of the
// source. Citations that fail the check are removed before the text is published, and counted; see
// filter.go.
//
// Run returns an [*Error] with a public code and message, or an error that wraps the context's
// cause or the journal's error. In one attempt at a run, the loop retries model calls at most
// twice, after short delays. It retries a call only if the turn has emitted no text and the retry
// budget allows it. For longer delays, the caller requeues the run.
package agentloop

// Package agentloop executes the turns of a run: it calls a model, executes the tools that the model
// requests, and repeats until the model answers. The package uses no bus, database or HTTP; it
// stores steps through a [Journal] and reports progress through a callback for events.
//
//	            ┌────────────── result recorded, more calls? ◄─┐
//	            ▼                                              │
//	load ─► model turn ──requests tools──► turn recorded ──► tool call
//	            │
//	            └──no tools──► Output (not recorded: the caller saves it with the run's result)
//
// The loop records every model turn that requests tools, and every tool call, as a [Step] before
// it continues. A worker that takes a run over loads the steps and continues after the last one.
// No recorded model call is paid twice, and no recorded tool call is executed twice. Work that
// was started but not recorded is repeated.
//
// Consecutive calls of a turn that have no side effect run concurrently. Their results are
// recorded and reported in the order of the calls. If a call needs a person's decision, Run
// returns [*Parked]; the next Run makes the call again. A call that the model may have written
// only in part is never executed. Calls beyond the limit of a turn fail; reaching the limit of
// the run fails the run.
//
// The text of a run is the texts of its turns, separated by empty lines. The concatenated
// message.delta events are that text. The model receives tool results, and data sent with the
// message, marked as untrusted. Sources have numbers that increase through the session. A number
// in brackets in the answer, with or without a quote, becomes a citation: it links the words of
// the answer before it to words of that source. Citations that fail the check are removed before
// anyone reads them, and counted; see filter.go.
//
// Run returns an [*Error] with a public code and message, or an error that wraps the context's
// cause or the journal's error. The loop makes at most two short retries of a model call. It
// retries only while the turn has shown no text and the retry budget allows it. For longer delays
// the caller requeues the run.
package agentloop

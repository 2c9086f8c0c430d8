// Package tracing sends traces to an OpenTelemetry collector, when one is set, and is the one place that knows OpenTelemetry.
//
//	request ─► POST /api/… ─► run.accept ═ job ═► run.execute ─► chat gpt-… ─► execute_tool … ═ bus ═► tool.call … ─► GET host
//	                             └─ SQL               └─ SQL                                              └─ SQL
//
// Between processes a trace travels as a W3C traceparent: with the run's row and its job, and with a tool's call. A span
// begins where work enters a process ([Tracer.Root], [Tracer.Batch]); all others are children of the span that their context
// carries ([Child]), so code in between needs no tracer, only to pass its context on. Without a collector, or in a trace
// that nobody wants, contexts carry no span, and nothing is allocated.
//
// Spans hold names, ids, counts and codes. They hold no message, no argument, no header and no error text: these may be
// secret, and [Open] makes sure that no library adds them. What a model is sent and answers is added on request only.
package tracing

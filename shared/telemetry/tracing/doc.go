// Package tracing sends traces to an OpenTelemetry collector, if one is configured. No other
// package depends on OpenTelemetry.
//
//	request ─► POST /api/… ─► run.accept ═ job ═► run.execute ─► chat gpt-… ─► execute_tool … ═ bus ═► tool.call … ─► GET host
//	                             └─ SQL               └─ SQL                                              └─ SQL
//
// Between processes, a run's row, its job and its tool calls carry the trace as a W3C traceparent.
// A span begins where work enters a process ([Tracer.Root], [Tracer.Batch]). All other spans are
// children of the span in their context ([Child]), so the code in between does not need a tracer
// and only passes on its context. Without a collector, or in a trace that is not sampled, contexts
// contain no span, and nothing is allocated.
//
// Spans contain names, ids, counts and codes, but no messages, arguments, headers or error texts,
// which may be secret. [Open] prevents libraries from adding such data. The inputs and outputs of
// models are added only on request.
package tracing

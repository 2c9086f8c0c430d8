// Package observed records model calls in metrics and traces. It counts and times the calls of each
// provider. It also adds a span for each call to the run's trace, according to OpenTelemetry's
// conventions for generative AI. Spans contain prompts and answers only if the operator enables
// this.
//
// An Observer wraps the providers of a worker. The wrapped models behave like the original ones.
package observed

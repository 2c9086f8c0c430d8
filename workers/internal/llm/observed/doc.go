// Package observed records model calls in metrics and traces. It counts and times the calls of each
// provider. It also adds a span for each call to the run's trace, according to OpenTelemetry's
// conventions for generative AI. Spans contain prompts and answers only if the operator enables
// this.
package observed

// Package observed records model calls in metrics and traces. It counts and times each call by
// provider, and adds a span to the run's trace according to OpenTelemetry's conventions for
// generative AI. Spans contain prompts and answers only if that is enabled.
package observed

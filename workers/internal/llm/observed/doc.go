// Package observed shows operators what models are asked: each call is counted and timed by its provider, and is a span of the
// run's trace, after OpenTelemetry's conventions for generative models. Prompts and answers are in neither, unless that is asked for.
package observed

// Package providers wires the model providers that this service has into one
// registry. It is the only place that knows all of them; the mains fill its Config.
package providers

// Package hook keeps webhooks that come in, and takes their deliveries.
package hook

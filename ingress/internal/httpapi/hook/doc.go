// Package hook manages the hooks that receive webhooks and accepts their deliveries.
package hook

// Package llmtest holds every implementation of llm.Model to the same rules; each one's
// tests call [Run] with a way to make it.
package llmtest

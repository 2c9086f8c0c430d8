// Package llmtest contains the tests that every implementation of llm.Model must pass. The tests of
// each implementation call [Run].
package llmtest

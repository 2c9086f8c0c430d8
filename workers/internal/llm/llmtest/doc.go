// Package llmtest contains the common tests of all implementations of llm.Model. Each
// implementation's tests call [Run].
package llmtest

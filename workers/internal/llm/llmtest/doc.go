// Package llmtest contains the common tests of all implementations of llm.Model. The tests of each
// implementation call [Run].
package llmtest

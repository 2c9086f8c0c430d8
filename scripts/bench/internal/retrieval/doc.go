// Package retrieval makes questions to which the right passage is known: a corpus of documents, questions about their sections, and how
// well a search has answered them.
//
// The corpus is the documentation of Go's standard library. The questions are words of its sections, chosen by rules with a fixed seed,
// reordered, and in every other question mistyped. They distinguish rankings; they only resemble how people ask.
package retrieval

// Package retrieval creates search questions with known answers, and measures how well a search
// answers them.
//
// The corpus is the documentation of Go's standard library. The questions are words of its
// sections, chosen by rules with a fixed seed and reordered. Every other question contains a typing
// error. The questions distinguish rankings, but only resemble the questions of people.
package retrieval

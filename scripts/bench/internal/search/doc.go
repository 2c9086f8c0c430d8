// Package search makes questions about the sections of Parley's documentation, each with one right
// answer, and asks PostgreSQL's own full text search the same questions.
//
// A question consists of some words of a section, chosen with a fixed seed and reordered. Every
// other question contains a typing error. The questions distinguish rankings, but only resemble the
// questions of people.
package search

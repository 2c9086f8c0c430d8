// Package search creates questions about the sections of Parley's documentation and searches for
// their answers with PostgreSQL's own full text search. Each question has one right answer.
//
// A question consists of some words of a section, chosen with a fixed seed and reordered. Every
// other question contains a typing error. Questions made in this way show which of two rankings is
// better. They do not show how well a ranking answers the questions of people.
package search

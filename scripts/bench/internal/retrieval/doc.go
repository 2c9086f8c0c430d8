// Package retrieval measures what searches find: questions about Debian's manual pages, of each of which the section that answers
// it is known, asked of Parley and of PostgreSQL's own ranking on the same passages.
//
// The questions are made by rules from words of the sections, with a fixed seed: reordered, inflected, some mistyped, never a
// sentence as it stands. They tell rankings apart; how people ask they only resemble. The embeddings are hashed character
// sequences, not a language model's: they know spelling and no meaning, so that what hybrid search gains by them is what the
// machinery adds, and no measure of what a real model would.
package retrieval

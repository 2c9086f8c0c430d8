// Package analysis makes the terms by which text is found, of documents and of what is searched for: words without case, marks and
// inflection in the language of the text, codes and numbers as they are written, pairs of characters where no spaces are written.
//
// What the two sides have to agree on: a word of a document, in whatever language, is among the lexemes of the same word in a
// search, unless the language's stop words have it.
package analysis

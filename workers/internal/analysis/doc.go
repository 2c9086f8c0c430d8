// Package analysis extracts search terms from texts, for documents and for queries. The terms are:
//
//   - words without case, marks and inflection, according to the language of the text,
//   - codes and numbers as written,
//   - pairs of characters in scripts without spaces between words.
//
// The terms of documents and queries must match. If a word occurs in a query and in a document, the
// lexemes of the query's word include those of the document's word, for any language of the
// document. The only exception is a stop word of that language.
package analysis

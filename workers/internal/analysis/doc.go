// Package analysis extracts the search terms of texts, for documents and for queries. The terms
// are:
//
//   - words without case, marks and inflection, according to the language of the text,
//   - codes and numbers as written,
//   - pairs of characters in scripts that write no spaces.
//
// Both sides must agree: if a query contains a word of a document, the lexemes of the query's
// word include the lexemes of the document's word, whatever the document's language. The
// exception is a word that is a stop word of that language.
package analysis

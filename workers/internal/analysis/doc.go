// Package analysis extracts search terms from texts, for documents and for queries. The terms are:
//
//   - words without case, marks and inflection, according to the language of the text,
//   - codes and numbers as written,
//   - pairs of characters in scripts without spaces between words.
//
// The terms of documents and queries must match. If a word occurs in a query and in a document, the
// lexemes of the query's word include those of the document's word, for any language of the
// document. The only exception is a stop word of that language.
//
// Package ingest calls Detect for a document and Terms for its passages, and stores the terms in
// the index. Package retrieval calls Query for a search, and the other functions for the passages
// that were found. A change of the terms for documents therefore requires that documents are
// indexed again.
//
//	text ─► scan ─► tokens ─┬─ words ─► parts of codes ─► lookUp (stem, stop words) ─► terms
//	                        └─ Chinese, Japanese, Korean, Thai, … ─► pairs ──────────► terms
//
// All functions are safe for concurrent use and take linear time.
package analysis

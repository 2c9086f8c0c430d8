// Package parse reads documents. It detects a document's format, calls the reader for that format,
// cleans the text, and enforces limits. It runs only in the sandboxed reader process.
//
// The data flows in one direction. Parse passes the document to a Reader. The reader writes blocks
// of text to a Writer, which cleans them and emits them as events of package document. The worker
// outside of the sandbox receives the events; see package extract.
//
// Readers are in the subpackages office, epub, markup, plain and pdf. They are passed to Parse as
// Formats, so that this package depends on none of them.
//
// The content determines the format. The document's name and the declared type are only used to
// distinguish text formats. Both come from the sender, as does the content, so none of them is
// trusted. A panic in a reader becomes a failure.
package parse

// Package document defines the data that a document's reader, which runs in a sandbox, sends to the
// worker that indexes the document. The data consists of events with the document's pages and
// blocks of text, in reading order.
package document

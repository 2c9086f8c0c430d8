// Package document defines the data that the reader of a document, in a sandbox, sends to the worker
// that indexes the document: events with its pages and blocks of text, in reading order.
package document

// Package parse reads documents. It detects a document's format, calls the reader of that format,
// and makes sure that the result stays within limits and is clean text. It runs only in the
// sandboxed reader process.
package parse

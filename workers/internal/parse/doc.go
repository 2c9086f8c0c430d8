// Package parse reads documents. It detects a document's format, calls the reader for that format,
// cleans the text, and enforces limits. It runs only in the sandboxed reader process.
package parse

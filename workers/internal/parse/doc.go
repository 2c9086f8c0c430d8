// Package parse reads documents. It detects a document's format, calls the reader for the format,
// cleans the text, and enforces the limits. It runs only in the sandboxed reader process.
package parse

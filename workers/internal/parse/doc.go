// Package parse reads documents: it finds out what a content is, hands it to the reader of that format, and sees to it that what
// is read stays within its limits and is clean text. It runs in the sandboxed child only.
package parse

// Package chunk divides the text of a document into passages, which are indexed, found and cited.
// It divides at headings, paragraphs, rows and sentences; no passage spans pages. It reads block
// by block and keeps at most two chunks in memory.
package chunk

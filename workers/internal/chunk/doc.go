// Package chunk divides a document's text into passages, which are indexed, found by searches, and
// cited. It divides the text at sections, paragraphs, table rows and sentences. A passage never
// spans two pages. The package reads block by block and keeps at most two chunks in memory.
package chunk

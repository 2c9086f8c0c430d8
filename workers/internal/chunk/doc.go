// Package chunk cuts the text of documents into the pieces that are indexed, found and cited: by headings, paragraphs, rows and
// sentences, never across pages. It reads block by block and holds no more than two chunks.
package chunk

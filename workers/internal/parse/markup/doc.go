// Package markup reads HTML, XHTML and Markdown: the text that a reader of the page sees, in blocks.
package markup

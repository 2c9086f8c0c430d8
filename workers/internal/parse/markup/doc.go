// Package markup reads HTML, XHTML and Markdown as blocks of the text that a reader of the page
// sees.
package markup

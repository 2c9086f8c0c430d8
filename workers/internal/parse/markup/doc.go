// Package markup reads HTML, XHTML and Markdown. It returns the visible text of a page as blocks.
package markup

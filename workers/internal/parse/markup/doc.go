// Package markup reads HTML, XHTML and Markdown. It returns the visible text of a page as blocks.
//
// The functions HTML and Markdown are readers for documents; see package formats. Package epub uses
// BookPage and Links for the pages of books. Markdown is converted to HTML first, so the rules for
// visible text are in one place, the type walk.
//
// Hidden elements, scripts, forms and navigation menus are omitted. Hidden text must not reach a
// model, because a person who reviews the page cannot see it.
//
// The parsers of HTML and Markdown take quadratic time for some texts. Texts are therefore checked
// or changed before they are parsed.
package markup

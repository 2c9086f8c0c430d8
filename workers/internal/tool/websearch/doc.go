// Package websearch implements the tool webSearch in the tool worker. It queries a search provider,
// reads the first pages of the results, and returns passages of the pages as sources that an answer
// may cite.
//
//	query ─► provider ─► results ─► pages read ─► main text ─► stored by hash ─► passages ─► sources
//	                        └───────── a page that cannot be read: its snippet ──┘
//
// A model supplies no addresses: only pages found by the same call are read. Text of pages,
// snippets and titles is untrusted, and stays within the result's output and sources. Text that a
// reader of the page would not see is removed, and each passage is an exact part of the stored
// text.
//
// All requests use package outbound, which refuses private addresses except for the provider's,
// which the operator configures. Pages are parsed under limits on time, size, nesting and the
// number of nodes, because an author of a page can make it expensive to parse.
//
// In the order of the drawing, the files are: provider.go and the providers' files, read.go,
// head.go, prune.go, extract.go, render.go, passage.go with terms.go, and answer.go.
package websearch

// Package websearch is the tool webSearch, on the tool worker's side: it asks a search provider, reads the first
// pages that were found, and gives passages of them as sources that an answer may cite.
//
//	query ─► provider ─► results ─► pages read ─► main text ─► kept by hash ─► passages ─► sources
//	                        └───────── a page that cannot be read: its snippet ──┘
//
// A model names no address: pages are those that the search found in this very call. Whatever pages, snippets and
// titles say is foreign text; it stays inside the result's output and sources. Text that a reader of the page would not
// see is left out of it, and each passage is an exact piece of the text that is kept.
package websearch

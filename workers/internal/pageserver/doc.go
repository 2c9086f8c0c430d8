// Package pageserver renders the pages of PDFs that ingresses request over the bus.
//
//	request ─► signed claims? ─┬─ no ──► refused
//	                           └─ yes ─► free slot for the organization ─► document ─► reader in a sandbox ─► picture
//
// The claims name the organization, the document and the page, so the body is empty. Nothing is
// stored: the ingress keeps pictures for a while.
package pageserver

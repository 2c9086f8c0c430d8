// Package pageserver renders pages of PDFs. Ingresses request the pictures over the bus.
//
//	request ─► signed claims? ─┬─ no ──► refused
//	                           └─ yes ─► free slot for the organization ─► document ─► reader in a sandbox ─► picture
//
// The signed claims name the organization, the document and the page, so the body of a request is
// empty. The page server stores no pictures; the ingress caches them for some time.
package pageserver

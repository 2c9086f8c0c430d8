// Package transfer bounds the bodies that take long to come or go: uploads of documents, deliveries to hooks, and files.
//
// A Limiter has slots by credential, organization, client address and in all; the last quarter is for newcomers. A transfer that finds no
// free slot takes that of one whose client is too slow. The pace that a client must keep rises while slots fill:
//
//	Enter ──► waits for its client ◄──► moves bytes ──► Leave
//	                  │ slower than the pace, and another needs the slot
//	                  ▼
//	                 cut
//
// The time that the service itself takes counts for nobody. Receive has a body begin among the small ones and go on to the next limiter
// as it grows, so that few large bodies take no room of many small ones.
package transfer

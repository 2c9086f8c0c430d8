// Package transfer bounds the bodies that take long to come or go: uploads of documents, large deliveries to hooks, and files.
//
// A Limiter has slots by credential, organization, client address and in all. A newcomer that finds no free slot takes that of a transfer
// whose client is slower than the policy's pace, or it is refused:
//
//	Enter ──► waits for its client ◄──► moves bytes ──► Leave
//	                  │ slower than the pace, and another needs the slot
//	                  ▼
//	                 cut
//
// The time that the service itself takes counts for nobody.
package transfer

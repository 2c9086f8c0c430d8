// Package domain holds Parley's records: plain structs whose JSON form is the one
// the HTTP contract shows. It imports the standard library only, so that every
// other package may import it.
//
// A run moves through these states; the ones on the right are terminal and never change:
//
//	   ┌────────── worker lost, or a cause that a retry can cure
//	   ▼         │
//	queued ──► running ──► completed | failed | cancelled | timed_out
//	   │         ▲ │
//	   │         │ ▼
//	   │   requires_action
//	   └──────────────────► cancelled | timed_out | failed
package domain

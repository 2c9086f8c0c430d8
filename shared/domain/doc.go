// Package domain defines Parley's records: plain structs whose JSON form is used by the HTTP
// API. It imports only the standard library, so that every other package may import it.
//
// A run moves through these states; the states on the right are terminal and never change:
//
//	   ┌────────── worker lost, or a transient error
//	   ▼         │
//	queued ──► running ──► completed | failed | cancelled | timed_out
//	   │         ▲ │
//	   │         │ ▼
//	   │   requires_action
//	   └──────────────────► cancelled | timed_out | failed
package domain

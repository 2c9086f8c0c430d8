// Package domain defines Parley's records: plain structs whose JSON form is used by the HTTP
// API. It imports only the standard library, so that every other package may import it.
//
// A run moves through these states. Those in the last line are terminal and never change. Only a
// running run becomes completed:
//
//	   ┌───────────┬─────────────────┐  worker lost, transient error, decision
//	   ▼           │                 │
//	queued ──► running ──► requires_action
//	   │           │                 │
//	   ▼           ▼                 ▼
//	completed | failed | cancelled | timed_out
package domain

// Package stream follows the event logs of runs as they grow.
//
// PostgreSQL stores the events that workers have checkpointed. The bus carries the events that
// workers have published since the last checkpoint. A reader subscribes first and reads the log
// second, so no event falls between the two. It orders the events by their ids:
//
//	bus ──► Hub ──► each reader's buffer ──┐
//	                                       ├─► Next: each event once, in order
//	PostgreSQL ──► grouped reads ──────────┘
//
// A reader reads the log again if events are missing: after a gap, a dropped message, a full
// buffer, or a new attempt. It also does so when the run finishes, and after a time without events.
// If a client reads nothing, its reader's small buffer becomes full and is dropped. Such a client
// delays neither the run nor other readers.
//
// An open reader costs its buffer and one timer. Readers of one run share a subscription, all
// subscriptions share a channel, and reads of many readers share a statement. Package ingress
// creates the only Hub of a process. Package dispatch and the HTTP handlers open readers. The
// package writes nothing to the database. Packages uistream, openaiapi and realtime translate the
// events to other protocols with the help of [SentText].
package stream

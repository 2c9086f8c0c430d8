// Package stream follows the event logs of runs for readers that show them while they grow.
//
// A log lives in two places: what workers have checkpointed, in PostgreSQL, and what they have told since, on the
// bus. A reader subscribes first and reads then, so that nothing falls between the two, and puts both together by
// the events' ids:
//
//	bus ──► Hub ──► each reader's buffer ──┐
//	                                       ├─► Next: events in order, none twice, none left out
//	PostgreSQL ──► grouped reads ──────────┘
//
// Whatever a reader has heard that does not follow what it has told - a gap, a message that was dropped, a buffer
// that overflowed, an attempt that began anew - makes it read the log again, and so do a notice of the run's end
// and a time without news. A reader that nobody reads from fills its own small buffer, and then that is dropped:
// it delays neither the run nor other readers.
//
// An open reader costs its buffer and one timer. Readers of one run share a subscription, all subscriptions
// share a channel, and reads of many readers share a statement.
package stream

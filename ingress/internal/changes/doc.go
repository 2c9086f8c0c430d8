// Package changes notifies watchers that the runs or documents of their organization have changed.
// A notice does not name the changed run or document, so the receiver must read its data again.
//
//	bus ──► Hub ──► one mark per watcher and kind ──► Next: at most one of a kind in half a second
//
// Each watched organization costs one subscription, and each watcher a few marks and a timer,
// however many changes there are. A mark stays set until its notice is delivered, so that the last
// of many changes is never lost. If the connection to the bus was lost or messages were dropped,
// all kinds are marked.
package changes

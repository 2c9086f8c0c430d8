// Package changes notifies watchers that the runs or documents of their organization have changed.
// A notice does not name the changed run or document, so the receiver must read its data again.
//
//	bus ──► Hub ──► one mark per watcher and kind ──► Next: at most one of a kind in half a second
//
// A watched organization costs one subscription, and a watcher costs a few marks and a timer,
// however much changes. A mark stays until it is delivered, so the last of many changes is never
// lost. After a lost connection or dropped messages, all kinds are marked.
package changes

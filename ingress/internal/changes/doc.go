// Package changes tells those who watch an organization that its runs or documents have changed, and never which: whoever
// is told reads again what they may read.
//
//	bus ──► Hub ──► each watcher's marks, one for a kind ──► Next: at most one of a kind in half a second
//
// An organization that somebody watches costs one subscription, a watcher a few marks and a timer; how much changes makes
// no difference to either. A mark stays until it is told, so the last change of many is never lost. Where something may
// have been missed - the connection to the bus was away, or messages did not fit - all kinds are marked.
package changes

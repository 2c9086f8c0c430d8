// Package toolset gives a run its tools: which ones there are is fixed when the run starts, and each call of them
// goes over the bus to a tool worker, with a capability that says whose call it is.
//
//	                        ┌─ free of side effects, nobody to ask ───────────────────┐
//	call ─► arguments fit? ─┤                                                         ├─► tool worker ─► result
//	                        └─ effect ledger: done? denied? to be asked? else ready ──┘
//
// A call that may not be repeated freely, or that a person must approve, has an entry in the effect ledger before it
// is made. Whatever dies, the next attempt at the run finds there how far the call came: see domain.EffectState.
// What cannot be known ends in a tool.ActionRequired, and a person decides.
package toolset

// Package toolset provides the tools of a run. The set is fixed when the run starts. Each call is
// sent over the bus to a tool worker. A capability in the request names the run to which the call
// belongs.
//
//	                        ┌─ no side effects, no approval needed ────────────────────────┐
//	call ─► arguments fit? ─┤                                                              ├─► tool worker ─► result
//	                        └─ effect ledger: done? denied? approval needed? else: ready ──┘
//
// If a call must not be repeated freely or needs a person's approval, it is entered in the effect
// ledger before it is sent. If the worker dies, the run's next attempt reads the state of the call
// from the ledger; see domain.EffectState. If the outcome cannot be determined, the call fails with
// a tool.ActionRequired, and a person decides.
package toolset

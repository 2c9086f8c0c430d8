// Package toolset provides a run's tools. The set is fixed when the run starts. Each call goes over
// the bus to a tool worker, with a capability that names the run it belongs to.
//
//	                        ┌─ no side effects, no approval needed ────────────────────────┐
//	call ─► arguments fit? ─┤                                                              ├─► tool worker ─► result
//	                        └─ effect ledger: done? denied? approval needed? else: ready ──┘
//
// A call that must not be repeated freely, or that needs a person's approval, is entered in the
// effect ledger before it is sent. If the worker dies, the run's next attempt reads from the ledger
// how far the call came: see domain.EffectState. If the outcome cannot be determined, the call
// fails with a tool.ActionRequired and a person decides.
package toolset

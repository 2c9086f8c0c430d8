// Package crashpoints has tests alone: real processes die, freeze and are cut off at each point of a run's path, and nothing is lost
// by it.
//
// A test has a bed of its own: a database, a nats-server, an ingress, an agent worker, a tool worker and a sweeper, built with the
// tag failpoints, and outside of them a model and a till, which counts effects:
//
//	client ──▶ ingress ──▶ agent ──▶ tool ──▶ till
//	              │          ├─▶ model
//	              └── PostgreSQL, nats-server ── sweep
//
// PARLEY_FAILPOINTS of one process says where it is struck. A client posts each of its calls again, with the same key, until it has
// a run's end, and stands in for the person where a run asks for one: that person looks at the till. In the end every call has
// its answer, is one run and one effect, and gets the same bytes again.
//
// TestRows strikes once, at every point of shared/failpoint and by every fault that docs/reliability.md names. TestPairs
// strikes a run twice: the process that dies at one point, and then the one that goes on with the run, at another.
package crashpoints

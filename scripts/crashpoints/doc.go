// Package crashpoints kills, freezes and disconnects real processes at each point on a run's path,
// and checks that nothing is lost. It contains only tests.
//
// Each test has an environment: a database, a nats-server, an ingress, an agent worker, a tool
// worker and a sweeper. The programs are built with the tag failpoints. Outside the service are a
// model and a till, which receives payments and counts them:
//
//	client ──▶ ingress ──▶ agent ──▶ tool ──▶ till
//	              │          ├─▶ model
//	              └── PostgreSQL, nats-server ── sweep
//
// The setting PARLEY_FAILPOINTS selects the point at which a process fails. A client repeats each
// of its calls with the same key until the run has finished. If a run needs a person's decision,
// the client decides according to the till. In the end, every call has its answer, one run and one
// effect, and a replay returns the same JSON.
//
// TestRows injects one fault at a time: a fault at each point in shared/failpoint, and each fault
// that docs/reliability.md names. TestPairs kills two processes of a run. The first one is killed
// at one point, and the process that continues the run is killed at another point. With -short,
// TestShortForm tests some rows and pairs in three environments that run side by side.
package crashpoints

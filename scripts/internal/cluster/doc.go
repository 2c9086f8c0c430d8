// Package cluster starts a whole Parley of real processes on loopback for tests that strike them: ingresses, workers by role, a
// nats-server and a PostgreSQL that syncs what is committed.
//
//	clients ──▶ Front ──▶ ingress ──▶ DB ──▶ PostgreSQL
//	                         │          ▲
//	                         ▼          │
//	                        Bus ──▶ nats-server ◀── Bus ── worker
//
// Front, DB and Bus are fault proxies, each of one process alone. Every process is a Part that is started again whenever it has ended,
// as a container's restart policy does. Unlike testkit.Process, parts may be struck from any goroutine: what goes wrong with them is kept
// until the test asks for it.
package cluster

// Package cluster starts a complete Parley for fault tests, as real processes on loopback:
// ingresses, workers with separate roles, a nats-server, and a PostgreSQL with durable commits.
//
//	clients ──▶ Front ──▶ ingress ──▶ DB ──▶ PostgreSQL
//	                         │          ▲
//	                         ▼          │
//	                        Bus ──▶ nats-server ◀── Bus ── worker
//
// Front, DB and Bus are fault proxies, separate for each process. Every process is a Part, which is
// restarted whenever it ends, like a container with a restart policy. Unlike a testkit.Process, a
// Part may be killed by any goroutine. It records its failures, and the test reads them later.
package cluster

// Package cluster starts a complete Parley of real processes on loopback for fault tests: ingresses, workers with separate
// roles, a nats-server, and a PostgreSQL with durable commits.
//
//	clients ──▶ Front ──▶ ingress ──▶ DB ──▶ PostgreSQL
//	                         │          ▲
//	                         ▼          │
//	                        Bus ──▶ nats-server ◀── Bus ── worker
//
// Front, DB and Bus are fault proxies, separate for each process. Every process is a Part that is restarted whenever it ends,
// like a container with a restart policy. Unlike with testkit.Process, any goroutine may kill a Part: the Part records its
// failures until the test reads them.
package cluster

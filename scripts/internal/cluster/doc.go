// Package cluster starts a whole Parley of real processes on loopback for fault tests: ingresses, workers by role, a
// nats-server, and a PostgreSQL with durable commits.
//
//	clients ──▶ Front ──▶ ingress ──▶ DB ──▶ PostgreSQL
//	                         │          ▲
//	                         ▼          │
//	                        Bus ──▶ nats-server ◀── Bus ── worker
//
// Front, DB and Bus are fault proxies. Each process has its own proxies. Every process is a Part that is restarted whenever
// it ends, like a container with a restart policy. Unlike testkit.Process, parts may be killed from any goroutine: a part
// records its failures until the test reads them.
package cluster

// Package standalone is Parley in one process: the private servers, the schema, the seeds and
// both halves of the service, started in this order and stopped in the reverse.
//
//	lock DATA_DIR ─► PostgreSQL ─► NATS ─► schema, templates ─► workers ─► ingress ─► seeds ─► banner
//
// The halves talk through NATS as they do in separate processes; only the servers are nearer.
package standalone

// Package standalone runs Parley in one process: private servers, schema, workers, ingress, and the
// contents of a new service (seeds). They start in this order and stop in the reverse order.
//
//	lock DATA_DIR ─► PostgreSQL ─► NATS ─► schema, templates ─► workers ─► ingress ─► seeds ─► banner
//
// Workers and ingress communicate through NATS, as they do in separate processes.
package standalone

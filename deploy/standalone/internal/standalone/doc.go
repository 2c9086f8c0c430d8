// Package standalone runs Parley in one process: private servers, schema, seeds, workers and ingress. They start in this
// order and stop in the reverse order.
//
//	lock DATA_DIR ─► PostgreSQL ─► NATS ─► schema, templates ─► workers ─► ingress ─► seeds ─► banner
//
// Workers and ingress communicate through NATS, as separate processes do.
package standalone

// Package ingest processes documents: it hears their doorbells, claims them, has them read in a sandbox, cuts what was read into
// passages, and writes these into the index, all under a lease.
//
// What a worker may write is decided by the fence of its claim, in PostgreSQL; the doorbell only says that something waits, and
// is acknowledged at once:
//
//	doorbell, or a second ─► claim ─► content ─► reader ─► blocks ─► indexer ─► batches ─► writers ─► index
//	        heartbeat: lease │        (fetched)  (sandbox)          (passages,            (vectors)    │
//	                         │                                       terms)                            │
//	                         ├─ all was written ───────────────────────────────────────► ready ◄───────┘
//	                         ├─ it cannot be read ─────────────────────────────────────► failed, with its reason
//	                         ├─ a cause that may pass ─────────────────────────────────► queued, for later
//	                         ├─ the worker stops ──────────────────────────────────────► queued, for another
//	                         ├─ it leaves the last slot or the short lane ──────────────► queued, for another slot
//	                         └─ taken, deleted, replaced, or the lease is over ────────► nothing
//
// Reader, indexer and writers work side by side, with little between them, so a document's text is never held whole.
package ingest

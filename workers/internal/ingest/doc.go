// Package ingest processes documents. A worker receives job messages for documents,
// claims the documents, has them read in a sandbox, divides their text into passages, and writes
// the passages to the index, all under a lease.
//
// PostgreSQL accepts a worker's writes only while the fence of its claim is current. A job message
// only reports that a document waits, and is acknowledged immediately:
//
//	job, or 1 s poll      ─► claim ─► content ─► reader ─► blocks ─► indexer ─► batches ─► writers ─► index
//	        heartbeat: lease │        (fetched)  (sandbox)          (passages,            (vectors)    │
//	                         │                                       terms)                            │
//	                         ├─ all was written ───────────────────────────────────────► ready ◄───────┘
//	                         ├─ it cannot be read ─────────────────────────────────────► failed, with its reason
//	                         ├─ a transient error ─────────────────────────────────────► queued, for later
//	                         ├─ the worker stops ──────────────────────────────────────► queued, for another
//	                         ├─ it leaves the last slot or the short lane ──────────────► queued, for another slot
//	                         └─ taken, deleted, replaced, or the lease is over ────────► nothing
//
// Reader, indexer and writers run concurrently with small buffers between them, so a document's
// text is never completely in memory.
package ingest

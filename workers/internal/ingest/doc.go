// Package ingest processes documents. A worker receives job messages for documents, claims the
// documents, reads them in a sandbox, divides their text into passages, and writes the passages to
// the index. Meanwhile it holds a lease on each document.
//
// PostgreSQL accepts a worker's writes only while the fence of its claim is current. A job message
// only reports that a document waits, and is acknowledged immediately:
//
//	job, or 1 s poll      ─► claim ─► content ─► reader ─► blocks ─► indexer ─► batches ─► writers ─► index
//	        heartbeat: lease │        (fetched)  (sandbox)          (passages,            (vectors)    │
//	                         │                                       terms)                            │
//	                         ├─ all passages are written ──────────────────────────────► ready ◄───────┘
//	                         ├─ it cannot be read ─────────────────────────────────────► failed, with the reason
//	                         ├─ a transient error ─────────────────────────────────────► queued, with a delay
//	                         ├─ the worker stops ──────────────────────────────────────► queued, for another worker
//	                         ├─ it leaves the last slot or the short lane ──────────────► queued, for another slot
//	                         └─ taken, deleted, replaced, or the lease has expired ────► no change by this worker
//
// Reader, indexer and writers run concurrently with small buffers between them, so a document's
// text is never completely in memory.
package ingest

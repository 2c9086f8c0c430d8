package ingest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/shared/store/knowledgedb"
	"parley/shared/store/lease"
)

// Causes with which attempts are cancelled.
var (
	errTaken    = errors.New("the document was taken over by another worker")
	errLease    = errors.New("the lease expired while the database was unreachable")
	errDraining = errors.New("the worker is stopping")
	errYields   = errors.New("the document was moved to another lane")
)

// heartbeatEvery is the interval at which leases are extended. It is short enough that some
// heartbeats may fail before a lease expires.
const heartbeatEvery = 10 * time.Second

// heldDocument is one document that this worker has claimed.
type heldDocument struct {
	knowledgedb.LeasedDocument
	cancel     context.CancelCauseFunc
	leaseUntil time.Time // when the lease expires by this process's monotonic clock; guarded by mu of heldDocuments
}

// heldDocuments are the documents that this worker has claimed. One heartbeat extends all leases.
type heldDocuments struct {
	mu        sync.Mutex
	documents map[string]*heldDocument
}

// add adds a document. If this worker already has an attempt at the document, add cancels that
// attempt, because the new claim replaces the earlier claim.
func (h *heldDocuments) add(d *heldDocument) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before := h.documents[d.ID]; before != nil {
		before.cancel(errTaken)
	}
	h.documents[d.ID] = d
}

// remove removes a document, unless this worker has claimed it again since then.
func (h *heldDocuments) remove(d *heldDocument) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.documents[d.ID] == d {
		delete(h.documents, d.ID)
	}
}

// cancelAll cancels all attempts. It does not wait for them.
func (h *heldDocuments) cancelAll(cause error) {
	for _, d := range h.all() {
		d.cancel(cause)
	}
}

// all returns a copy of the list, so that callers need no lock.
func (h *heldDocuments) all() []*heldDocument {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.documents))
}

// count returns the number of documents in progress.
func (h *heldDocuments) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.documents)
}

// extend records the renewed lease for watch.
func (h *heldDocuments) extend(d *heldDocument, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.leaseUntil = until
}

// watch cancels attempts whose leases have expired by the local clock. It does not use the
// database, because a heartbeat may be waiting for it.
func (h *heldDocuments) watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			h.mu.Lock()
			for _, d := range h.documents {
				// From now on another worker may claim the document. Its fence rejects this
				// worker's writes.
				if now.After(d.leaseUntil) {
					d.cancel(errLease)
				}
			}
			h.mu.Unlock()
		}
	}
}

// heartbeat extends the leases of all documents in progress until ctx ends.
func (i *Ingester) heartbeat(ctx context.Context) {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			// The leases last for several heartbeats, so a single failure is harmless.
			return
		case <-ticker.C:
			i.extendLeases(ctx)
		}
	}
}

// extendLeases extends all leases in one statement. An attempt at a document that is no longer
// held is cancelled immediately. If the database is unavailable, attempts continue until their
// leases expire.
func (i *Ingester) extendLeases(ctx context.Context) {
	documents := i.held.all()
	if len(documents) == 0 {
		return
	}

	// The lease in the database begins after this moment, so it expires first by the local estimate.
	requestedAt := time.Now()
	ids := make([]knowledgedb.LeasedDocument, len(documents))
	for n, d := range documents {
		ids[n] = d.LeasedDocument
	}

	ctx, cancel := context.WithTimeout(ctx, heartbeatEvery)
	defer cancel()

	lost, err := i.deps.Claims.ExtendDocuments(ctx, ids)
	if err != nil {
		i.deps.Log.Warn().Err(err).Int("documents", len(documents)).Msg("extending the leases of documents failed, retrying")
		return
	}

	for _, d := range documents {
		if slices.Contains(lost, d.LeasedDocument) {
			d.cancel(errTaken)
			continue
		}
		i.held.extend(d, requestedAt.Add(lease.Lease))
	}
}

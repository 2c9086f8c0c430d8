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

// Why an attempt was cancelled.
var (
	errTaken    = errors.New("the document was taken over by another worker")
	errLease    = errors.New("the lease expired while the database was unreachable")
	errDraining = errors.New("the worker is stopping")
	errYields   = errors.New("the document was moved to another lane")
)

const heartbeatEvery = 10 * time.Second

// holding is one document in this worker's hands.
type holding struct {
	knowledgedb.HeldDocument
	cancel     context.CancelCauseFunc
	leaseUntil time.Time // by this process's monotonic clock; guarded by held's lock
}

// held is what this worker holds, kept alive by heartbeats that all documents share.
type held struct {
	mu        sync.Mutex
	documents map[string]*holding
}

// add enters a document. An earlier attempt of this worker at it is over: this claim has taken it.
func (h *held) add(d *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before := h.documents[d.ID]; before != nil {
		before.cancel(errTaken)
	}
	h.documents[d.ID] = d
}

// remove forgets a document, unless a later claim of it by this worker has taken the place.
func (h *held) remove(d *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.documents[d.ID] == d {
		delete(h.documents, d.ID)
	}
}

func (h *held) cancelAll(cause error) {
	for _, d := range h.all() {
		d.cancel(cause)
	}
}

func (h *held) all() []*holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.documents))
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.documents)
}

func (h *held) extend(d *holding, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.leaseUntil = until
}

// watch cancels attempts whose lease is over by the local clock. It asks nobody: a heartbeat may be waiting for a database that
// does not answer.
func (h *held) watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			h.mu.Lock()
			for _, d := range h.documents {
				if now.After(d.leaseUntil) {
					d.cancel(errLease)
				}
			}
			h.mu.Unlock()
		}
	}
}

func (i *Ingester) heartbeat(ctx context.Context) {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			i.beat(ctx)
		}
	}
}

// beat renews all leases in one statement. A document that is no longer held is given up at once; when the database cannot be
// asked, only once its lease is over.
func (i *Ingester) beat(ctx context.Context) {
	documents := i.held.all()
	if len(documents) == 0 {
		return
	}
	asked := time.Now()
	ids := make([]knowledgedb.HeldDocument, len(documents))
	for n, d := range documents {
		ids[n] = d.HeldDocument
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatEvery)
	defer cancel()
	lost, err := i.deps.Claims.ExtendDocuments(ctx, ids)
	if err != nil {
		i.deps.Log.Warn().Err(err).Int("documents", len(documents)).Msg("heartbeat of documents failed, retrying")
		return
	}
	for _, d := range documents {
		if slices.Contains(lost, d.HeldDocument) {
			d.cancel(errTaken)
			continue
		}
		i.held.extend(d, asked.Add(lease.Lease))
	}
}

package ingest

import (
	"context"
	"errors"
	"slices"

	"parley/shared/store/knowledgedb"
	"parley/workers/internal/leased"
)

// Causes for which attempts are cancelled.
var (
	errTaken    = leased.ErrTaken
	errLease    = leased.ErrLease
	errDraining = leased.ErrDraining
	errYields   = errors.New("the document was moved to another lane")
)

// heldDocuments contains the documents that this worker is processing.
type heldDocuments = leased.Set[knowledgedb.LeasedDocument]

func newHeldDocuments() *heldDocuments {
	return leased.New(func(d knowledgedb.LeasedDocument) string { return d.ID })
}

// heartbeat extends the leases of the documents that this worker is processing, until ctx ends.
func (i *Ingester) heartbeat(ctx context.Context) {
	i.held.Heartbeat(ctx, i.deps.Log, i.extend)
}

// extend extends the leases of the given documents and returns the ids of the documents still held.
// The result locked is always nil, because ExtendDocuments treats a document whose row is locked as
// held.
func (i *Ingester) extend(ctx context.Context, held []knowledgedb.LeasedDocument) (extended, locked map[string]bool, err error) {
	lost, err := i.deps.Claims.ExtendDocuments(ctx, held)
	extended = make(map[string]bool, len(held))
	for _, d := range held {
		extended[d.ID] = !slices.Contains(lost, d)
	}
	return extended, nil, err
}

package dispatch

import (
	"context"

	"parley/shared/domain"
	"parley/shared/store/sessiondb"
)

// EraseSession erases a session. Whoever carries out one of its open runs is stopped, and whoever waits for one
// is told that it was erased.
func (d *Dispatcher) EraseSession(ctx context.Context, name sessiondb.SessionName) error {
	ended, err := d.store.Sessions.EraseSession(ctx, name)
	d.bus.Changed(domain.ChangedRuns, name.OrganizationID) // also with an error: a part of a long session may be gone
	d.tell(ctx, ended)
	return refusal(err)
}

// DeleteDocument deletes a document, and erases the runs that were given text of it and what followed on them. Whoever
// carries one of these out is stopped, and whoever waits for one is told that it was erased.
func (d *Dispatcher) DeleteDocument(ctx context.Context, org, documentID string) error {
	ended, err := d.store.Knowledge.DeleteDocument(ctx, org, documentID)
	d.bus.Changed(domain.ChangedDocuments, org) // also with an error: it may be there, without being found any more
	d.bus.Changed(domain.ChangedRuns, org)
	d.tell(ctx, ended)
	return refusal(err)
}

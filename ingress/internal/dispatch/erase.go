package dispatch

import (
	"context"

	"parley/shared/domain"
	"parley/shared/store/sessiondb"
)

// EraseSession erases a session. It stops the workers of the session's open runs, and notifies
// their waiters that the runs were erased.
func (d *Dispatcher) EraseSession(ctx context.Context, name sessiondb.SessionName) error {
	ended, err := d.store.Sessions.EraseSession(ctx, name)
	d.bus.Changed(domain.ChangedRuns, name.OrganizationID) // even after an error, because a long session may have been erased in part
	d.notifyFinished(ctx, ended)
	return refusal(err)
}

// DeleteDocument deletes a document and erases the runs that received its text, and the later runs
// of their sessions. It stops the workers of the open runs and notifies the waiters.
func (d *Dispatcher) DeleteDocument(ctx context.Context, org, documentID string) error {
	ended, err := d.store.Knowledge.DeleteDocument(ctx, org, documentID)
	d.bus.Changed(domain.ChangedDocuments, org) // published even after an error, because the document may already be hidden from searches
	d.bus.Changed(domain.ChangedRuns, org)
	d.notifyFinished(ctx, ended)
	return refusal(err)
}

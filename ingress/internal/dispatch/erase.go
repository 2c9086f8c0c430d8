package dispatch

import (
	"context"

	"parley/shared/domain"
	"parley/shared/store/sessiondb"
)

// EraseSession erases a session. Workers stop executing the session's unfinished runs, and requests
// that wait for them learn that the runs were erased.
func (d *Dispatcher) EraseSession(ctx context.Context, name sessiondb.SessionName) error {
	ended, err := d.store.Sessions.EraseSession(ctx, name)
	d.bus.Changed(domain.ChangedRuns, name.OrganizationID) // even after an error, because a part of the session may have been erased
	d.notifyFinished(ctx, ended)
	return refusal(err)
}

// DeleteDocument deletes a document. It also erases the runs that received text of the document,
// and the later runs of their sessions. It stops the workers that execute such runs, and notifies
// the requests that wait for them.
func (d *Dispatcher) DeleteDocument(ctx context.Context, org, documentID string) error {
	ended, err := d.store.Knowledge.DeleteDocument(ctx, org, documentID)
	d.bus.Changed(domain.ChangedDocuments, org) // published even after an error, because the document may already be hidden from searches
	d.bus.Changed(domain.ChangedRuns, org)
	d.notifyFinished(ctx, ended)
	return refusal(err)
}

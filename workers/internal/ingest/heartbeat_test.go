package ingest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store/knowledgedb"
	"parley/shared/store/lease"
)

// extendingStore is a store that extends the leases of all documents except those in the field
// lost. If err is not nil, each call returns it.
type extendingStore struct {
	Claims
	lost []knowledgedb.LeasedDocument
	err  error
}

func (e *extendingStore) ExtendDocuments(context.Context, []knowledgedb.LeasedDocument) ([]knowledgedb.LeasedDocument, error) {
	return e.lost, e.err
}

// A document stays with its worker while the worker extends the lease. An attempt ends immediately
// when another worker takes its document. While the database is unavailable, an attempt ends when
// its lease expires.
func TestAttemptsEndWithTheirLeases(t *testing.T) {
	t.Parallel()
	doc := knowledgedb.LeasedDocument{OrganizationID: "org_a", ID: "doc_1", Fence: 7}
	for what, c := range map[string]struct {
		claims *extendingStore
		cause  error
		within time.Duration
	}{
		"extended":             {&extendingStore{}, context.DeadlineExceeded, 3 * lease.Lease},
		"lost":                 {&extendingStore{lost: []knowledgedb.LeasedDocument{doc}}, errTaken, lease.Lease / 2},
		"the database is away": {&extendingStore{err: errors.New("away")}, errLease, lease.Lease + 2*time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			i := &Ingester{deps: Deps{Claims: c.claims, Log: zerolog.Nop()}, held: newHeldDocuments()}
			stop, cancelAll := context.WithTimeout(t.Context(), 3*lease.Lease) // measured by this test's clock
			defer cancelAll()
			attempt, cancel := context.WithCancelCause(stop)
			began := time.Now()
			i.held.Add(doc, began, cancel)
			go i.held.Watch(stop)
			go i.heartbeat(stop)
			<-attempt.Done()
			if took, cause := time.Since(began), context.Cause(attempt); !errors.Is(cause, c.cause) || took > c.within {
				t.Errorf("%s: ended after %s: %v", what, took, cause)
			}
			cancelAll()
			synctest.Wait()
		})
	}
}

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

// An attempt ends when its lease expires, even while the database is unavailable. If the lease is
// extended, the attempt continues.
func TestAttemptsEndWithTheirLeases(t *testing.T) {
	t.Parallel()
	for what, claims := range map[string]*extending{"the database is away": {err: errors.New("away")}, "it is renewed": {}} {
		synctest.Test(t, func(t *testing.T) {
			i := &Ingester{deps: Deps{Claims: claims, Log: zerolog.Nop()}, held: &heldDocuments{documents: map[string]*heldDocument{}}}
			stop, cancelAll := context.WithTimeout(t.Context(), 3*lease.Lease) // measured by this test's clock
			defer cancelAll()
			attempt, cancel := context.WithCancelCause(stop)
			began := time.Now()
			i.held.add(&heldDocument{LeasedDocument: knowledgedb.LeasedDocument{ID: "doc_1"}, cancel: cancel, leaseUntil: began.Add(lease.Lease)})
			go i.held.watch(stop)
			go i.heartbeat(stop)
			<-attempt.Done()
			took, cause := time.Since(began), context.Cause(attempt)
			switch {
			case claims.err == nil && !errors.Is(cause, context.DeadlineExceeded):
				t.Errorf("%s: ended after %s: %v", what, took, cause)
			case claims.err != nil && (!errors.Is(cause, errLease) || took < lease.Lease || took > lease.Lease+2*time.Second):
				t.Errorf("%s: ended after %s: %v", what, took, cause)
			}
			cancelAll()
			synctest.Wait()
		})
	}
}

package ingest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store/knowledgedb"
	"parley/shared/store/lease"
)

// extending extends the leases of all documents except the given ones.
type extending struct {
	Claims
	lost []knowledgedb.LeasedDocument
	err  error
}

func (e *extending) ExtendDocuments(context.Context, []knowledgedb.LeasedDocument) ([]knowledgedb.LeasedDocument, error) {
	return e.lost, e.err
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	claims := &extending{lost: []knowledgedb.LeasedDocument{{OrganizationID: "org_a", ID: "doc_2", Fence: 7}}}
	i := &Ingester{deps: Deps{Claims: claims, Log: zerolog.Nop()}, held: &heldDocuments{documents: map[string]*heldDocument{}}}
	soon := time.Now().Add(time.Second)
	hold := func(documentID string) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		i.held.add(&heldDocument{LeasedDocument: knowledgedb.LeasedDocument{OrganizationID: "org_a", ID: documentID, Fence: 7}, cancel: cancel, leaseUntil: soon})
		return ctx
	}
	kept, taken := hold("doc_1"), hold("doc_2")
	i.extendLeases(t.Context())
	if cause := context.Cause(taken); !errors.Is(cause, errTaken) {
		t.Errorf("a document that was taken: %v", cause)
	}
	if until := i.held.documents["doc_1"].leaseUntil; kept.Err() != nil || time.Until(until) < lease.Lease-5*time.Second {
		t.Errorf("claimed document: %v, until %s", kept.Err(), until)
	}
	claims.lost, claims.err = nil, errors.New("away")
	i.extendLeases(t.Context())
	if kept.Err() != nil {
		t.Error("a database that is away ends an attempt")
	}
}

func TestAClaimTakesADocumentFromAnEarlierOne(t *testing.T) {
	t.Parallel()
	h := &heldDocuments{documents: map[string]*heldDocument{}}
	ctx, cancel := context.WithCancelCause(t.Context())
	first := &heldDocument{LeasedDocument: knowledgedb.LeasedDocument{ID: "doc_1", Fence: 1}, cancel: cancel}
	second := &heldDocument{LeasedDocument: knowledgedb.LeasedDocument{ID: "doc_1", Fence: 2}, cancel: func(error) {}}
	h.add(first)
	h.add(second)
	if !errors.Is(context.Cause(ctx), errTaken) {
		t.Errorf("the earlier attempt: %v", context.Cause(ctx))
	}
	if h.remove(first); h.count() != 1 {
		t.Error("the earlier attempt has removed the later one")
	}
	if h.remove(second); h.count() != 0 {
		t.Error("the document is still claimed")
	}
}

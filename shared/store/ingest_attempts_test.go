package store_test

import (
	"testing"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
)

func TestAttemptsAtADocumentAreCapped(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	doc := b.document([]byte("never ready")).ID
	for n := 1; n <= knowledgedb.MaxDocumentAttempts; n++ {
		if kept, err := b.s.Knowledge.PostponeDocument(t.Context(), b.claimDocument(), broken, 0); err != nil || !kept {
			t.Fatalf("attempt %d: %v, %v", n, kept, err)
		}
		if n < knowledgedb.MaxDocumentAttempts {
			b.wantDocument(doc, domain.DocumentQueued, "put back")
		}
	}
	if got := b.wantDocument(doc, domain.DocumentFailed, "no attempt is left"); got.Error == nil || *got.Error != broken {
		t.Errorf("%+v", got.Error)
	}
	b.wantNoClaim("after the last attempt")

	if _, err := b.s.Knowledge.RetryDocument(t.Context(), b.org, doc); err != nil {
		t.Fatal(err)
	}
	if kept, err := b.s.Knowledge.PostponeDocument(t.Context(), b.claimDocument(), broken, 0); err != nil || !kept {
		t.Fatalf("after a retry: %v, %v", kept, err)
	}
	b.wantDocument(doc, domain.DocumentQueued, "attempts are counted from the retry")
}

package store_test

import (
	"testing"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
)

// TestSyncSamples stores the sample documents of two releases in an organization. A changed sample
// keeps its id and is processed again. Other documents stay as they are.
func TestSyncSamples(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	same, old := domain.Sample{Name: "a.md", MIMEType: "text/markdown", Content: []byte("same")}, domain.Sample{Name: "b.md", MIMEType: "text/markdown", Content: []byte("old")}
	changed := old
	changed.Content = []byte("changed")

	sync := func(samples ...domain.Sample) []*domain.Document {
		t.Helper()
		if err := knowledgedb.SyncSamples(t.Context(), b.s.Knowledge, b.org, domain.SystemPrincipal, samples); err != nil {
			t.Fatal(err)
		}
		found, err := knowledgedb.SampleDocuments(t.Context(), b.s.Knowledge, b.org, samples)
		if err != nil || len(found) != len(samples) || found[0] == nil || found[len(found)-1] == nil {
			t.Fatalf("%v, %v", found, err)
		}
		return found
	}

	first := sync(same, old)
	b.exec(`UPDATE documents SET status = 'ready' WHERE org_id = $1`, b.org)
	if again := sync(same, old); again[0].ID != first[0].ID || again[1].ID != first[1].ID || again[1].Status != domain.DocumentReady {
		t.Errorf("unchanged samples: %+v, %+v", again[0], again[1])
	}
	next := sync(same, changed)
	if next[0].ID != first[0].ID || next[0].Status != domain.DocumentReady || next[1].ID != first[1].ID || next[1].Status != domain.DocumentQueued {
		t.Errorf("a changed sample: %+v, %+v", next[0], next[1])
	}
	if n := b.text(`SELECT count(*)::text FROM documents WHERE metadata ? 'example'`); n != "2" {
		t.Errorf("%s documents, want 2", n)
	}
	if found, err := knowledgedb.SampleDocuments(t.Context(), b.s.Knowledge, b.org, []domain.Sample{old, same}); err != nil || found[0] != nil || found[1] == nil {
		t.Errorf("documents of the old samples: %v, %v", found, err)
	}
}

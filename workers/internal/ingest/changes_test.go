package ingest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/document"
)

// dashboardReader simulates the dashboard of an organization. Whenever a change of the
// organization's documents is published, it reads the document documentID and stores the document's
// state.
type dashboardReader struct {
	*testEnv
	Bus
	documentID string
	mu         sync.Mutex
	seen       []string
}

func (l *dashboardReader) Changed(kind domain.ChangeKind, org string) {
	if kind != domain.ChangedDocuments || org != l.org {
		l.Errorf("change %s of %s", kind, org)
	}
	d, err := l.store.Knowledge.DocumentByID(context.WithoutCancel(l.Context()), l.org, l.documentID)
	if err != nil {
		l.Errorf("reading the document: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state := fmt.Sprint(d.Status, " ", d.Done > 0)
	if len(l.seen) == 0 || l.seen[len(l.seen)-1] != state {
		l.seen = append(l.seen, state)
	}
}

func (l *dashboardReader) states() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// A client that reads a document after each published change sees each state of the document.
func TestDocumentChangesArePublished(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read readFunc
		last domain.DocumentStatus
		seen []string
	}{
		"ready":     {plain, domain.DocumentReady, []string{"processing false", "processing true", "ready true"}},
		"failed":    {failing(false), domain.DocumentFailed, []string{"processing false", "failed false"}},
		"postponed": {failing(true), domain.DocumentQueued, []string{"processing false", "queued false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestEnv(t)
			sent := r.send(r.org, "a.txt", pages(300))
			l := &dashboardReader{testEnv: r, Bus: r.bus, documentID: sent.Document.ID}
			stop := r.start(c.read, func(_ *Config, deps *Deps) { deps.Bus = l })
			r.await(r.org, sent.Document.ID, "published", func(d domain.Document) bool {
				seen := l.states()
				return d.Status == c.last && len(seen) >= len(c.seen) && seen[len(c.seen)-1] == c.seen[len(c.seen)-1]
			})
			if seen := l.states(); !slices.Equal(seen[:len(c.seen)], c.seen) {
				t.Errorf("a client sees %q, want %q", seen, c.seen)
			}
			stop()
		})
	}
}

// failing is a reader that always fails.
func failing(retry bool) readFunc {
	return func(context.Context, Source, func(document.Event) error) (document.Info, error) {
		return document.Info{}, &document.Failure{Code: document.Internal, Message: "It cannot be read.", Retry: retry}
	}
}

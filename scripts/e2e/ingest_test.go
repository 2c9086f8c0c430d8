package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit"
)

// ingestGateSQL creates triggers that block an ingest worker at the point named in a document's
// metadata. The points are: while it claims the document, while it writes the first passages, while
// it reports progress, and while it marks the document as ready or failed.
const ingestGateSQL = `
CREATE FUNCTION e2e_documents() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  point text := NEW.metadata->>'point';
BEGIN
  IF point = 'claim' AND OLD.status = 'queued' AND NEW.status = 'processing'
    OR point = 'progress' AND OLD.status = 'processing' AND NEW.status = 'processing' AND NEW.pages_done > OLD.pages_done
    OR point = 'ready' AND NEW.status = 'ready' OR point = 'failed' AND NEW.status = 'failed' THEN
    PERFORM e2e_gate(point);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER e2e_documents BEFORE UPDATE ON documents FOR EACH ROW EXECUTE FUNCTION e2e_documents();
CREATE FUNCTION e2e_chunks() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF NEW.n = 0 AND EXISTS (SELECT 1 FROM documents d WHERE d.id = NEW.document_id AND d.metadata->>'point' = 'chunks') THEN
    PERFORM e2e_gate('chunks');
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER e2e_chunks BEFORE INSERT ON document_chunks FOR EACH ROW EXECUTE FUNCTION e2e_chunks();`

// library serves one document over HTTP. It holds the first response until release is called.
type library struct {
	host, url string
	arrived   chan struct{}
	release   chan struct{}
}

// newLibrary starts a library whose document contains the given mark.
func newLibrary(t *testing.T, mark string) *library {
	t.Helper()
	l := &library{arrived: make(chan struct{}, 8), release: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case l.arrived <- struct{}{}:
		default:
		}
		select {
		case <-l.release:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintf(w, "What the library has is called %s.\n", mark)
	}))

	t.Cleanup(server.Close)
	l.url, l.host = server.URL+"/shelf/book.txt", strings.TrimPrefix(server.URL, "http://")
	return l
}

// TestChaosIngest kills or freezes an ingest worker at each point of the processing of a document.
// Each document becomes ready, or failed with a reason, exactly once. Late statements of a frozen
// worker change nothing.
func TestChaosIngest(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"kill", "stop"} {
		t.Run(signal, func(t *testing.T) {
			t.Parallel()
			if signal == "stop" {
				nightly(t, "the leases of all documents must expire")
			}
			strikeIngest(t, signal)
		})
	}
}

// strikeIngest sends the signal to an ingest worker that is processing several documents. For each
// of the points, one document has reached the point. Another worker then processes the documents,
// and strikeIngest checks each document.
func strikeIngest(t *testing.T, signal string) {
	t.Helper()
	shelf := newLibrary(t, "mark"+"fetch")
	c := newCluster(t, sandboxed, "OUTBOUND_ALLOW="+shelf.host, "INGEST_CONCURRENCY=8", "LIMIT_USER=50000", "LIMIT_SYSTEM=60000")
	c.settings = append(c.settings, "DATABASE_URL="+c.postgres.DSN()+"&statement_timeout=300000&lock_timeout=300000")
	in := c.ingress(t)
	points := []string{"chunks", "progress", "ready", "failed", "claim"}
	gate := newGates(t, c, points...)
	if _, err := c.db.ExecContext(t.Context(), ingestGateSQL); err != nil {
		t.Fatal(err)
	}
	c.worker(t, "ROLES=agent,tool,sweep")
	victim := c.worker(t, "ROLES=ingest")
	owner := signUp(t, in.url)
	ids := map[string]string{}
	var fetched kept
	owner.send(t, http.MethodPost, in.url+"/api/knowledge", map[string]any{"url": shelf.url}).Want(t, http.StatusAccepted).Into(t, &fetched)
	ids["fetch"] = fetched.ID
	select {
	case <-shelf.arrived:
	case <-time.After(60 * time.Second):
		t.Fatal("the document was not fetched")
	}
	for _, point := range points { // uploads one document at a time, because a blocked claim delays all of its documents
		content := manual("mark" + point)
		if point == "failed" {
			content = []byte("%PDF-1.4\nthis is none\n")
		}
		ids[point] = owner.upload(t, point+".pdf", content, fmt.Sprintf(`{"point":%q}`, point)).ID
		eventually(t, 60*time.Second, "a document at "+point, func() bool { return gate.waiting(t, point) > 0 })
	}
	strike(t, victim, signal)
	struck := time.Now()
	c.worker(t, "ROLES=ingest")
	gate.open(t)
	close(shelf.release)
	for point, id := range ids {
		d := owner.processed(t, id, 90*time.Second)
		t.Logf("%s: status %s, %s after the fault", point, d.Status, time.Since(struck).Round(time.Second))
		if point == "failed" {
			if d.Status != "failed" || d.Error == nil || d.Error.Code != "damaged" || d.Chunks != 0 {
				t.Errorf("%s: %+v", point, d)
			}
			continue
		}
		if d.Status != "ready" || d.Error != nil {
			t.Errorf("%s: %+v", point, d)
		}
	}
	if signal == "stop" {
		victim.Cont()
		later := owner.upload(t, "later.txt", []byte("The zombie is awake when this is read."), "")
		owner.processed(t, later.ID, 30*time.Second)
	}
	storedOnce(t, c, owner, ids)
}

func strike(t *testing.T, victim *testkit.Process, signal string) {
	t.Helper()
	if signal == "kill" {
		victim.Kill9()
		return
	}
	victim.Stop()
}

// storedOnce checks that each passage of a document is stored once, and that the document shows the
// right number of passages.
func storedOnce(t *testing.T, c *cluster, owner account, ids map[string]string) {
	t.Helper()
	for point, id := range ids {
		n := c.number(t, `SELECT count(*) FROM document_chunks WHERE document_id = $1`, id)
		if d := owner.document(t, id); n != d.Chunks {
			t.Errorf("%s: stored passages = %d, the document reports %d", point, n, d.Chunks)
		}
		if distinct := c.number(t, `SELECT count(DISTINCT (page, start_at)) FROM document_chunks WHERE document_id = $1`, id); distinct != n {
			t.Errorf("%s: got %d passages, but only %d different ones", point, n, distinct)
		}
		if point != "failed" && !slices.Contains(owner.finds(t, "mark"+point), id) {
			t.Errorf("%s: a search does not find the document", point)
		}
	}

	// Each term's count must equal the number of passages that contain the term, even after
	// processes were killed.
	if wrong := c.number(t, `SELECT count(*) FROM knowledge_terms k WHERE k.chunks <= 0`); wrong != 0 {
		t.Errorf("%d counted terms occur in no passage", wrong)
	}
}

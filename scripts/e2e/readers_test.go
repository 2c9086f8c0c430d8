package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestChaosIngressKilledWithReaders kills an ingress while a client reads the stream of one run
// through it. The ingress is also about to cancel another run, whose client has disconnected.
// Neither run has an idempotency key. Both runs must complete, and must not delay later messages of
// their sessions. The other ingress must cancel only the run whose client has disconnected from
// that ingress.
func TestChaosIngressKilledWithReaders(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dying, other := c.ingress(t), c.ingress(t)
	c.worker(t)
	owner := signUp(t, dying.url)
	ask := func(in *edge, session, message string) *stream {
		s := openStream(t, http.MethodPost, in.url+"/v1/responses", map[string]string{"x-api-key": owner.key},
			map[string]any{"model": owner.agent, "conversation": session, "input": message, "stream": true})
		c.model.awaitCalls(t, message, 1)
		return s
	}

	read := ask(dying, "read", "sleep 12s: read")
	left := ask(dying, "left", "sleep 12s: left")
	neighbour := ask(other, "neighbour", "sleep 12s: neighbour")
	stopped := ask(other, "stopped", "sleep 60s: stopped")
	_ = left.res.Body.Close()
	_ = stopped.res.Body.Close()
	dying.Kill9()
	if _, err := read.next(); err == nil {
		for err == nil { // reads the events sent before the kill
			_, err = read.next()
		}
	}

	status := func(session string) string {
		return c.text(t, "SELECT coalesce(r.status, o.status) FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id WHERE r.session_id = $1 ORDER BY r.seq LIMIT 1", session)
	}
	eventually(t, 12*time.Second, "the run whose reader left is cancelled", func() bool { return status("stopped") == "cancelled" })
	for _, session := range []string{"read", "left"} {
		next := openStream(t, http.MethodPost, other.url+"/v1/responses", map[string]string{"x-api-key": owner.key},
			map[string]any{"model": owner.agent, "conversation": session, "input": "next", "stream": true})
		if said := bytesFor(next.rest(t)); !strings.Contains(said, echoed("next")) {
			t.Errorf("the next message of %s: %s", session, said)
		}
		if got := status(session); got != "completed" {
			t.Errorf("the run of %s is %s", session, got)
		}
	}
	if said := bytesFor(neighbour.rest(t)); !strings.Contains(said, echoed("neighbour")) {
		t.Errorf("the neighbour: %s", said)
	}
}

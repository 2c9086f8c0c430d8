package e2e

import (
	"net/http"
	"testing"
	"time"
)

// waiters is the number of requests that wait for their runs when the test kills or stops the
// ingress.
const waiters = 8

// TestStoppingIngressAnswersItsWaiters stops an ingress while requests wait for their run. The
// ingress must answer each with status 202 and the run's URL before it exits.
func TestStoppingIngressAnswersItsWaiters(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leaving, other := c.ingress(t), c.ingress(t)
	c.worker(t)
	owner := signUp(t, leaving.url)
	asked := trigger{message: "sleep 12s: later", key: "k"}
	var waiting []<-chan answer
	for range waiters {
		waiting = append(waiting, owner.start(t.Context(), asked))
	}

	c.model.awaitCalls(t, asked.message, 1)
	id := c.text(t, "SELECT id FROM runs")
	polls := make(chan answer, 1) // receives the response to a long poll, which also waits for the run
	go func() { polls <- owner.get(t.Context(), "/api/runs?id="+id+"&wait=40") }()
	leaving.awaitConnections(t, len(waiting)+1)
	leaving.Term()
	for _, w := range waiting {
		got := awaitAnswer(t, w, 25*time.Second).want(t, http.StatusAccepted)
		if got.run(t).ID != id {
			t.Fatalf("response with another run: %s", got.body)
		}
		if location := got.header.Get("Location"); location != "/api/runs?id="+id {
			t.Fatalf("Location = %q", location)
		}
		got.wantRetryAfter(t)
	}

	if got := awaitAnswer(t, polls, 25*time.Second).want(t, http.StatusOK).run(t); got.Status != "running" {
		t.Fatalf("run status after the long poll = %s, want running", got.Status)
	}
	if err := leaving.Wait(25 * time.Second); err != nil {
		t.Fatalf("the ingress did not exit with 0: %v", err)
	}

	owner.at(other).result(t, id, 40*time.Second).completed(t, echoed("later"), 1)
	owner.at(other).post(t.Context(), asked).replayed(t)
}

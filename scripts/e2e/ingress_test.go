package e2e

import (
	"net/http"
	"testing"
	"time"

	"parley/scripts/internal/api"
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
	var waiting []<-chan api.Answer
	for range waiters {
		waiting = append(waiting, owner.start(t.Context(), asked))
	}

	c.model.awaitCalls(t, asked.message, 1)
	id := c.text(t, "SELECT id FROM runs")
	polls := make(chan api.Answer, 1) // receives the response to a long poll, which also waits for the run
	go func() { polls <- owner.get(t.Context(), "/api/runs?id="+id+"&wait=40") }()
	leaving.awaitConnections(t, len(waiting)+1)
	leaving.Term()
	for _, w := range waiting {
		got := awaitAnswer(t, w, 25*time.Second).Want(t, http.StatusAccepted)
		if got.Run(t).ID != id {
			t.Fatalf("response with another run: %s", got.Body)
		}
		if location := got.Header.Get("Location"); location != "/api/runs?id="+id {
			t.Fatalf("Location = %q", location)
		}
		got.WantRetryAfter(t)
	}

	if got := awaitAnswer(t, polls, 25*time.Second).Want(t, http.StatusOK).Run(t); got.Status != "running" {
		t.Fatalf("run status after the long poll = %s, want running", got.Status)
	}
	if err := leaving.Wait(25 * time.Second); err != nil {
		t.Fatalf("the ingress did not exit with 0: %v", err)
	}

	owner.at(other).result(t, id, 40*time.Second).Completed(t, echoed("later"), 1)
	owner.at(other).post(t.Context(), asked).Replayed(t)
}

package e2e

import (
	"bytes"
	"net/http"
	"testing"
)

// TestAnAutomationOnGivenServers sends triggers with the same idempotency key to two ingresses. The
// agent runs once, and both responses are equal. `make test-containers` runs this test with
// PostgreSQL and NATS in containers.
func TestAnAutomationOnGivenServers(t *testing.T) {
	t.Parallel()
	c := newGivenCluster(t)
	one, two := c.ingress(t), c.ingress(t)
	c.worker(t)
	owner := signUp(t, one.url)
	asked := trigger{message: "once", key: "nightly-1"}
	first := owner.post(t.Context(), asked).Want(t, http.StatusOK)
	first.Completed(t, echoed("once"), 1)
	again := owner.at(two).post(t.Context(), asked).Replayed(t)
	if !bytes.Equal(again.Body, first.Body) {
		t.Errorf("response from the other ingress = %s, want %s", again.Body, first.Body)
	}
	if calls := c.model.count(asked.message); calls != 1 {
		t.Errorf("model calls = %d, want 1", calls)
	}
}

package e2e

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/api"
)

// sameKeyPosts is the number of simultaneous requests with the same idempotency key.
const sameKeyPosts = 50

// oneRunPerKey sends many requests with one idempotency key to two ingresses. They must start only
// one run, and get the same response.
func oneRunPerKey(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	ingresses := []*edge{s.first, s.second}
	owner := signUp(t, ingresses[0].url)
	other := signUp(t, ingresses[1].url)
	// The run takes 3 s, so that all requests arrive before it finishes.
	asked := trigger{message: "sleep 3s: once", key: "nightly-1"}

	answers := postAtOnce(t, owner, ingresses, asked)
	first := answers[0].Want(t, http.StatusOK)
	first.Completed(t, echoed("once"), 1)
	for i, a := range answers {
		if !bytes.Equal(a.Want(t, http.StatusOK).Body, first.Body) {
			t.Fatalf("response %d of %d differs:\n%s\n%s", i, len(answers), a.Body, first.Body)
		}
	}
	if rows := s.number(t, "SELECT count(*) FROM runs WHERE agent_id = $1", owner.agent); rows != 1 {
		t.Fatalf("runs in the database = %d, want 1", rows)
	}
	if calls := s.model.count(asked.message); calls != 1 {
		t.Fatalf("model calls = %d, want 1", calls)
	}

	reused := owner.post(t.Context(), trigger{message: "another message", key: asked.key})
	reused.Refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused")

	theirs := other.at(ingresses[0]).post(t.Context(), trigger{message: "theirs", key: asked.key})
	if theirs.Completed(t, echoed("theirs"), 1).ID == first.Run(t).ID {
		t.Fatal("the same key in another organization returned the first organization's run")
	}

	for _, in := range ingresses {
		again := owner.at(in).post(t.Context(), asked).Replayed(t)
		if !bytes.Equal(again.Body, first.Body) {
			t.Fatalf("the response changed:\n%s\n%s", again.Body, first.Body)
		}
		owner.at(in).post(t.Context(), trigger{message: "another message", key: asked.key}).
			Refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
	}
	if calls := s.model.count(asked.message); calls != 1 {
		t.Fatalf("model calls after the replays = %d, want 1", calls)
	}
}

// postAtOnce sends the same trigger many times simultaneously, each time over a separate
// connection. It alternates between the ingresses.
func postAtOnce(t *testing.T, owner account, ingresses []*edge, tr trigger) []api.Answer {
	t.Helper()
	answers := make([]api.Answer, sameKeyPosts)
	gate := make(chan struct{})
	var posts sync.WaitGroup
	for i := range answers {
		caller := owner.at(ingresses[i%len(ingresses)])
		posts.Go(func() {
			<-gate
			answers[i] = caller.post(t.Context(), tr)
		})
	}

	began := time.Now()
	close(gate)
	posts.Wait()
	t.Logf("%d requests with one key got responses within %s", len(answers), time.Since(began).Round(time.Millisecond))
	return answers
}

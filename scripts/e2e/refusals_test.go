package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit/openaistub"
)

// refusedRun contains the fields of a run whose model calls failed.
type refusedRun struct {
	ID           string
	Status       string
	Attempts     int
	FinishReason string
	Error        struct {
		Code     string
		Provider *struct {
			Status  int
			Message string
		}
	}
}

// providersThatRefuse runs agents whose model provider rejects requests or drops streams. If a
// provider drops every stream, the run fails after a few attempts, long before its deadline. The
// run shows the provider's status and message to admins, and the log shows the status to operators.
func providersThatRefuse(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	s.model.follow(func(req openaistub.Request) (openaistub.Reply, bool) {
		switch {
		case req.Prompt() == "drop":
			return openaistub.Reply{Text: "one two three", Fault: "cut"}, true
		case req.Prompt() == "refuse":
			return openaistub.Reply{Fault: "403"}, true
		}
		return openaistub.Reply{}, false
	})
	in := s.first
	owner := signUp(t, in.url)

	var dropped refusedRun
	began := time.Now()
	owner.post(t.Context(), trigger{message: "drop"}).Want(t, http.StatusOK).Into(t, &dropped)
	if dropped.Status != "failed" || dropped.Error.Code != "model_truncated" || dropped.FinishReason != "error" || dropped.Attempts > 5 {
		t.Errorf("after %s: %+v", time.Since(began), dropped)
	}
	if p := dropped.Error.Provider; p == nil || p.Status != http.StatusOK || !strings.Contains(p.Message, "ended before the answer") {
		t.Errorf("%+v", p)
	}

	var refused refusedRun
	owner.post(t.Context(), trigger{message: "refuse"}).Want(t, http.StatusOK).Into(t, &refused)
	if p := refused.Error.Provider; refused.Status != "failed" || refused.Error.Code != "model_rejected" || p == nil || p.Status != http.StatusForbidden {
		t.Errorf("%+v", refused)
	}
	if log := s.worker.Output(); !strings.Contains(log, `"provider_status":403`) || strings.Contains(log, "Bearer ") {
		t.Error("the log lacks the provider's response, or has a header")
	}
}

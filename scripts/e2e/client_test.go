package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

// persistentClient returns a client that keeps its connections open, as load balancers and busy
// callers do.
func persistentClient(t *testing.T, connections int) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: once{transport}, Timeout: api.Timeout}
}

// once keeps the transport from repeating a request with a body, because the service may already
// have read the request.
type once struct{ *http.Transport }

// RoundTrip sends the request.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.GetBody = nil
	return o.Transport.RoundTrip(r)
}

// account is an organization with a key and one agent.
type account struct {
	url   string // URL of the ingress that receives the account's requests
	key   string
	agent string
	by    *http.Client // sends the requests; nil means api.Fresh
}

// signUp creates an organization with an agent whose model is the ledger.
func signUp(t *testing.T, url string) account {
	t.Helper()
	a := account{url: url, key: api.SignUp(t, url)}
	a.agent = api.CreateAgent(t, url, a.key, map[string]any{"name": "Echo", "systemPrompt": "Repeat the message.", "model": modelName})
	return a
}

// at returns a copy of the account that sends its requests to another ingress.
func (a account) at(in *edge) account {
	a.url = in.url
	return a
}

func (a account) send(t *testing.T, method, url string, body any) api.Answer {
	t.Helper()
	return api.Send(t.Context(), method, url, map[string]string{"x-api-key": a.key}, body)
}

// get requests the resource at a path. It is safe for concurrent use.
func (a account) get(ctx context.Context, path string) api.Answer {
	return api.Send(ctx, http.MethodGet, a.url+path, map[string]string{"x-api-key": a.key}, nil)
}

// trigger contains the values of one request to run-automation. Empty fields are omitted from the
// request.
type trigger struct {
	message string
	key     string // idempotencyKey
	session string
	prefer  string
}

// post sends a trigger to run-automation and waits for the response. It is safe for concurrent use.
func (a account) post(ctx context.Context, tr trigger) api.Answer {
	body := map[string]any{"target": a.agent, "input": map[string]any{"message": tr.message}}
	if tr.key != "" {
		body["idempotencyKey"] = tr.key
	}
	if tr.session != "" {
		body["sessionId"] = tr.session
	}
	header := map[string]string{"x-api-key": a.key, "x-trigger-type": "schedule", "x-automation-id": "e2e"}
	if tr.prefer != "" {
		maps.Copy(header, map[string]string{"Prefer": tr.prefer})
	}
	return api.SendBy(ctx, cmp.Or(a.by, api.Fresh), http.MethodPost, a.url+"/api/internal/run-automation", header, body)
}

// start calls post in a new goroutine, which sends the response to the returned channel.
func (a account) start(ctx context.Context, tr trigger) <-chan api.Answer {
	answers := make(chan api.Answer, 1)
	go func() { answers <- a.post(ctx, tr) }()
	return answers
}

// enqueue posts a trigger with the preference respond-async, and returns the run's ID without
// waiting for the run.
func (a account) enqueue(t *testing.T, tr trigger) string {
	t.Helper()
	tr.prefer = "respond-async"
	got := a.post(t.Context(), tr).Want(t, http.StatusAccepted)
	return got.Run(t).ID
}

// result long-polls a run until it has finished, and returns the last response.
func (a account) result(t *testing.T, id string, within time.Duration) api.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()

	for {
		got := a.get(ctx, "/api/runs?id="+id+"&wait=20")
		if errors.Is(got.Err, context.DeadlineExceeded) {
			t.Fatalf("run %s has not finished within %s", id, within)
		}
		if api.Terminal(got.Want(t, http.StatusOK).Run(t).Status) {
			return got
		}
	}
}

// awaitAnswer waits for the response to a started request. It fails the test after a timeout.
func awaitAnswer(t *testing.T, answers <-chan api.Answer, within time.Duration) api.Answer {
	t.Helper()
	over := time.NewTimer(testkit.Within(within))
	defer over.Stop()
	select {
	case got := <-answers:
		return got
	case <-over.C:
		t.Fatalf("no response within %s", within)
		return api.Answer{}
	}
}

// echoed returns the ledger's answer to a message with the given text. The answer does not contain
// the message's directives.
func echoed(text string) string { return fmt.Sprintf("echo: %s", text) }

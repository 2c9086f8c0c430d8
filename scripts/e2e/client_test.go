package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	kit "parley/scripts/internal/cluster"
	"parley/shared/testkit"
)

// requestTimeout is the timeout of a request. It exceeds the service's maximum wait by the delay of
// a slow machine.
const requestTimeout = 80 * time.Second

// client opens a new connection for each request, as callers in separate processes do.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: requestTimeout}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // set if the connection broke, so there is no response
}

// persistentClient returns a client that keeps its connections open, as load balancers and busy
// callers do.
func persistentClient(t *testing.T, connections int) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: requestTimeout}
}

func send(ctx context.Context, method, url string, header map[string]string, body any) answer {
	return sendBy(ctx, client, method, url, header, body)
}

// sendBy sends a request with the given HTTP client, and returns its response. body is sent as JSON
// unless it is nil. sendBy does not fail the test, so goroutines can call it.
func sendBy(ctx context.Context, by *http.Client, method, url string, header map[string]string, body any) answer {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{err: err}
		}
		payload = bytes.NewReader(raw)
	}

	req, err := http.NewRequestWithContext(ctx, method, url, payload)
	if err != nil {
		return answer{err: err}
	}

	req.GetBody = nil // prevents an automatic retry: the service may already have read the request
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	for name, value := range header {
		req.Header.Set(name, value)
	}

	res, err := by.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()

	raw, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: raw, err: err}
}

// want fails the test unless the response has the given status. It returns the response.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.err != nil {
		t.Fatalf("no response: %v", a.err)
	}
	if a.status != status {
		t.Fatalf("status = %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// refused fails the test unless the response is an error with the given status and code. The
// response must have a Retry-After header if the status requires one.
func (a answer) refused(t *testing.T, status int, code string) {
	t.Helper()
	a.want(t, status)
	var problem struct {
		Code string `json:"code"`
	}
	a.into(t, &problem)
	if problem.Code != code {
		t.Fatalf("code = %q, want %q: %s", problem.Code, code, a.body)
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		a.wantRetryAfter(t)
	}
}

func (a answer) wantRetryAfter(t *testing.T) {
	t.Helper()
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Fatalf("response %d: Retry-After = %q, want a positive number of seconds", a.status, a.header.Get("Retry-After"))
	}
}

// replayed fails the test unless the response is a replay of a finished run's stored response.
func (a answer) replayed(t *testing.T) answer {
	t.Helper()
	a.want(t, http.StatusOK)
	if mark := a.header.Get("Idempotency-Replayed"); mark != "true" {
		t.Fatalf("Idempotency-Replayed = %q, want true; headers: %v", mark, a.header)
	}
	return a
}

func (a answer) into(t *testing.T, value any) {
	t.Helper()
	if err := json.Unmarshal(a.body, value); err != nil {
		t.Fatalf("response %d is not JSON: %v: %s", a.status, err, a.body)
	}
}

// run contains the fields of the run object that these tests use.
type run struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	SessionID string `json:"sessionId"`
	Attempts  int    `json:"attempts"`
	Output    *struct {
		Message string `json:"message"`
	} `json:"output"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
}

func (a answer) run(t *testing.T) run {
	t.Helper()
	var r run
	a.into(t, &r)
	if r.ID == "" {
		t.Fatalf("response %d is not a run: %s", a.status, a.body)
	}
	return r
}

// completed fails the test unless the response is a completed run with the given output and number
// of attempts.
func (a answer) completed(t *testing.T, output string, attempts int) run {
	t.Helper()
	r := a.want(t, http.StatusOK).run(t)
	if r.Status != "completed" || r.Output == nil || r.Output.Message != output || r.Attempts != attempts {
		t.Fatalf("want a completed run with output %q and %d attempts: %s", output, attempts, a.body)
	}
	return r
}

// account is an organization with a key and one agent.
type account struct {
	url   string // URL of the ingress that receives the account's requests
	key   string
	agent string
	by    *http.Client // sends the requests; nil means client
}

// signUp creates an organization with an agent whose model is the ledger.
func signUp(t *testing.T, url string) account {
	t.Helper()
	a := account{url: url, key: kit.SignUp(t, url)}
	a.agent = kit.CreateAgent(t, url, a.key, map[string]any{"name": "Echo", "systemPrompt": "Repeat the message.", "model": modelName})
	return a
}

// at returns a copy of the account that sends its requests to another ingress.
func (a account) at(in *edge) account {
	a.url = in.url
	return a
}

func (a account) send(t *testing.T, method, url string, body any) answer {
	t.Helper()
	return send(t.Context(), method, url, map[string]string{"x-api-key": a.key}, body)
}

// get requests the resource at a path. It is safe for concurrent use.
func (a account) get(ctx context.Context, path string) answer {
	return send(ctx, http.MethodGet, a.url+path, map[string]string{"x-api-key": a.key}, nil)
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
func (a account) post(ctx context.Context, tr trigger) answer {
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
	return sendBy(ctx, cmp.Or(a.by, client), http.MethodPost, a.url+"/api/internal/run-automation", header, body)
}

// start calls post in a new goroutine, which sends the response to the returned channel.
func (a account) start(ctx context.Context, tr trigger) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- a.post(ctx, tr) }()
	return answers
}

// enqueue posts a trigger with the preference respond-async, and returns the run's ID without
// waiting for the run.
func (a account) enqueue(t *testing.T, tr trigger) string {
	t.Helper()
	tr.prefer = "respond-async"
	got := a.post(t.Context(), tr).want(t, http.StatusAccepted)
	return got.run(t).ID
}

// result long-polls a run until it has finished, and returns the last response.
func (a account) result(t *testing.T, id string, within time.Duration) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()

	for {
		got := a.get(ctx, "/api/runs?id="+id+"&wait=20")
		if errors.Is(got.err, context.DeadlineExceeded) {
			t.Fatalf("run %s has not finished within %s", id, within)
		}
		switch status := got.want(t, http.StatusOK).run(t).Status; status {
		case "completed", "failed", "cancelled", "timed_out":
			return got
		}
	}
}

// awaitAnswer waits for the response to a started request. It fails the test after a timeout.
func awaitAnswer(t *testing.T, answers <-chan answer, within time.Duration) answer {
	t.Helper()
	over := time.NewTimer(testkit.Within(within))
	defer over.Stop()
	select {
	case got := <-answers:
		return got
	case <-over.C:
		t.Fatalf("no response within %s", within)
		return answer{}
	}
}

// echoed returns the ledger's answer to a message with the given text. The answer does not contain
// the message's directives.
func echoed(text string) string { return fmt.Sprintf("echo: %s", text) }

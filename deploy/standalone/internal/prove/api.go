package prove

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"parley/shared/truncate"
)

// requestTime bounds the duration of a request. It is longer than the longest wait that a client
// can request.
const requestTime = 75 * time.Second

// api is a client of the service under test. It uses only the public HTTP API. It is safe for
// concurrent use once signUp has returned.
type api struct {
	base, key, agent string
	http             *http.Client
}

// newAPI returns a client that keeps one connection open for each of the given number of clients.
func newAPI(base string, clients int) *api {
	// The client uses no proxy from the environment, because the service runs on this machine.
	transport := &http.Transport{MaxIdleConnsPerHost: clients, IdleConnTimeout: time.Minute}
	return &api{base: base, http: &http.Client{Transport: transport, Timeout: requestTime}}
}

// response is the complete response to a request.
type response struct {
	status int
	header http.Header
	body   []byte
}

// send sends one request. It returns an error only if there is no complete response.
func (a *api) send(ctx context.Context, method, path string, header map[string]string, body any) (response, error) {
	var payload io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return response{}, fmt.Errorf("encoding request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}

	req, err := http.NewRequestWithContext(ctx, method, a.base+path, payload)
	if err != nil {
		return response{}, fmt.Errorf("creating request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.key != "" {
		req.Header.Set("X-Api-Key", a.key)
	}

	for name, value := range header {
		req.Header.Set(name, value)
	}

	res, err := a.http.Do(req)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = res.Body.Close() }() // the response is read to its end below

	raw, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, raw}, err
}

// want sends a request that must succeed. It decodes the response into the given value. A status of
// 400 or above is an error.
func (a *api) want(ctx context.Context, method, path string, header map[string]string, body, into any) error {
	got, err := a.send(ctx, method, path, header, body)
	if err != nil {
		return fmt.Errorf("calling %s: %w", path, err)
	}
	if got.status >= http.StatusBadRequest {
		return fmt.Errorf("calling %s: %d: %s", path, got.status, truncate.Ellipsis(string(got.body), maxQuoted))
	}
	if err := json.Unmarshal(got.body, into); err != nil {
		return fmt.Errorf("decoding the response from %s: %w", path, err)
	}
	return nil
}

// make creates a resource with a POST request. It returns the text in the given field of the
// response. The text must not be empty.
func (a *api) make(ctx context.Context, path string, header map[string]string, body any, field string) (string, error) {
	var made map[string]any
	if err := a.want(ctx, http.MethodPost, path, header, body, &made); err != nil {
		return "", err
	}
	value, ok := made[field].(string)
	if !ok || value == "" {
		return "", fmt.Errorf("calling %s: the response has no %s", path, field)
	}
	return value, nil
}

// signUp creates an organization with an API key and an agent. The agent's tool requests effects
// from the ledger, whose address is host:port. From then on, requests use the key.
func (a *api) signUp(ctx context.Context, ledger string) error {
	user := map[string]any{"email": "prove@parley.local", "password": rand.Text()}
	token, err := a.make(ctx, "/api/auth/signup", nil, user, "token")
	if err != nil {
		return err
	}

	bearer := map[string]string{"Authorization": "Bearer " + token}
	a.key, err = a.make(ctx, "/api/keys", bearer, map[string]any{"name": "prove", "scope": "organization"}, "key")
	if err != nil {
		return err
	}

	endpoint := map[string]any{
		"name": tool, "description": "Books a trigger.", "method": http.MethodPost, "url": "http://" + ledger + effectPath,
		"sideEffect": "idempotent",
		"inputSchema": map[string]any{
			"type": "object", "required": []string{"trigger"}, "properties": map[string]any{"trigger": map[string]any{"type": "integer"}},
		},
	}

	agent := map[string]any{
		"name": "Booker", "systemPrompt": "Book the trigger of each message.", "model": "offline", "allowedCallers": []string{"system"},
		"tools": map[string]any{"httpRequest": map[string]any{"enabled": true, "endpoints": []any{endpoint}}},
	}

	a.agent, err = a.make(ctx, "/api/agents", nil, agent, "id")
	return err
}

// tool is the name of the endpoint that the agent calls.
const tool = "book"

// trigger sends trigger n with an idempotency key and waits for the response. The offline model
// calls the tool that the message names.
func (a *api) trigger(ctx context.Context, n int, key string) (response, error) {
	body := map[string]any{
		"target": a.agent, "idempotencyKey": key,
		"input": map[string]any{"message": fmt.Sprintf(`Use %s with {"trigger": %d}`, tool, n)},
	}
	header := map[string]string{"X-Trigger-Type": "schedule", "X-Automation-Id": "prove"}
	return a.send(ctx, http.MethodPost, "/api/internal/run-automation", header, body)
}

// runs lists all runs of the agent, page by page.
func (a *api) runs(ctx context.Context) ([]Listed, error) {
	var all []Listed
	for cursor := ""; ; {
		var page struct {
			Data       []Listed `json:"data"`
			NextCursor *string  `json:"nextCursor"`
		}
		query := url.Values{"agentId": {a.agent}, "limit": {"100"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		if err := a.want(ctx, http.MethodGet, "/api/runs?"+query.Encode(), nil, nil, &page); err != nil {
			return nil, fmt.Errorf("listing runs: %w", err)
		}
		all = append(all, page.Data...)
		if page.NextCursor == nil || *page.NextCursor == "" {
			return all, nil
		}
		cursor = *page.NextCursor
	}
}

// readAnswer decodes a finished run. It returns false if raw is not a run.
func readAnswer(raw []byte) (Answer, bool) {
	var run struct {
		ID        string `json:"id"`
		Status    string `json:"status"`
		ToolCalls []struct {
			Name   string `json:"name"`
			Status string `json:"status"`
		} `json:"toolCalls"`
	}
	if json.Unmarshal(raw, &run) != nil || run.ID == "" {
		return Answer{}, false
	}

	effect := false
	for _, call := range run.ToolCalls {
		effect = effect || call.Name == tool && call.Status == "completed"
	}
	return Answer{Body: raw, Run: run.ID, Status: run.Status, Effect: effect}, true
}

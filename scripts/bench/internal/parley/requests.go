package parley

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"

	"parley/scripts/bench/internal/load"
)

// automationPath is the path of run-automation requests.
const automationPath = "/api/internal/run-automation"

func chatPath(agent string) string { return "/api/agents?action=chat&id=" + url.QueryEscape(agent) }

func automationHeaders(key string) map[string]string {
	return map[string]string{"x-api-key": key, "x-trigger-type": "schedule", "x-automation-id": "bench"}
}

// Organization is an organization in Parley. Its methods send or build requests with its API key.
// Methods that return a load send nothing.
type Organization struct {
	Key   string
	Agent string // ID of its first agent

	parley *Parley
}

// resource is the response to a request that creates a resource.
type resource struct {
	ID string `json:"id"`
}

// SignUp creates an organization with a key and an agent.
func (p *Parley) SignUp(ctx context.Context, name, model string) (*Organization, error) {
	o := &Organization{parley: p}
	var login struct {
		Token string `json:"token"`
	}

	password := map[string]any{"email": name + "@example.com", "password": "correct horse battery staple"}
	if err := o.post(ctx, "/api/auth/signup", nil, password, &login); err != nil {
		return nil, err
	}

	bearer := map[string]string{"Authorization": "Bearer " + login.Token}
	var key struct {
		Key string `json:"key"`
	}
	err := o.post(ctx, "/api/keys", bearer, map[string]any{"name": "bench", "scope": "organization"}, &key)
	if err != nil {
		return nil, err
	}

	o.Key = key.Key
	o.Agent, err = o.NewAgent(ctx, "First", model, nil)
	return o, err
}

// NewAgent creates an agent that repeats its input, and returns the agent's ID. If tools is nil,
// the agent has no tools.
func (o *Organization) NewAgent(ctx context.Context, name, model string, tools map[string]any) (id string, err error) {
	agent := map[string]any{
		"name": name, "systemPrompt": "Repeat each message.", "model": model, "allowedCallers": []string{"user", "system"},
	}
	if tools != nil {
		agent["tools"] = tools
	}
	var made resource
	err = o.post(ctx, "/api/agents", nil, agent, &made)
	return made.ID, err
}

// Hook creates a GitHub webhook. It returns the load that sends deliveries to the webhook, signed
// with the secret.
func (o *Organization) Hook(ctx context.Context, secret string) (load.Spec, error) {
	var hook resource
	err := o.post(ctx, "/api/hooks", nil, map[string]any{
		"name": "bench", "agentId": o.Agent, "source": "github", "secret": secret,
		"messageTemplate": "An issue was {{action}} in {{repository.full_name}}: {{issue.title}}. {{issue.body}}",
		"filter":          []map[string]any{{"path": "@event", "op": "eq", "value": "issues"}},
	}, &hook)
	return load.Delivery(o.parley.Address(), "/api/hooks/receive/"+hook.ID, secret), err
}

// Automation returns a request that triggers a run of an agent and waits for the run's result.
func (o *Organization) Automation(agent, message, key string) load.Request {
	return o.request(http.MethodPost, automationPath, automationHeaders(o.Key),
		map[string]any{"target": agent, "input": map[string]string{"message": message}, "idempotencyKey": key})
}

// Streams returns a load of streamed chats with an agent, each in its own session.
func (o *Organization) Streams(agent, answer string) load.StreamSpec {
	return load.StreamSpec{
		Address: o.parley.Address(), Path: chatPath(agent), Headers: map[string]string{"x-api-key": o.Key},
		Body:  `{"sessionId":"` + load.KeyMark + `","message":"` + load.Message + `","stream":true}`,
		Field: "text", Answer: answer, End: "event: run.completed",
	}
}

// Load returns a load of run-automation requests to an agent.
func (o *Organization) Load(agent string) load.Spec {
	return load.Spec{
		Address: o.parley.Address(), Path: automationPath, Headers: automationHeaders(o.Key), Body: load.Body(agent), Expect: `"status":"completed"`,
	}
}

// Pages returns a load of requests for the first page of the list of runs.
func (o *Organization) Pages() load.Spec {
	return load.Spec{
		Address: o.parley.Address(), Method: http.MethodGet, Path: "/api/runs?limit=20", Headers: map[string]string{"x-api-key": o.Key},
		Expect: `"status":"completed"`,
	}
}

// Chats returns a load of chats with an agent, each in its own session. Its clients do not wait for
// the answers.
func (o *Organization) Chats(agent string) load.Spec {
	return load.Spec{
		Address: o.parley.Address(), Path: chatPath(agent), Headers: map[string]string{"x-api-key": o.Key, "Prefer": "respond-async"},
		Body: `{"sessionId":"` + load.KeyMark + `","message":"` + load.Message + `"}`, Expect: `"status":`,
	}
}

// Get returns a GET request with the organization's key.
func (o *Organization) Get(path string, query url.Values) load.Request {
	return o.request(http.MethodGet, path+"?"+query.Encode(), nil, nil)
}

// Upload uploads a document and returns its id.
func (o *Organization) Upload(ctx context.Context, name string, content []byte) (id string, err error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	if err == nil {
		_, err = part.Write(content)
	}
	if err := errors.Join(err, form.Close()); err != nil {
		return "", fmt.Errorf("creating form: %w", err)
	}

	r := o.request(http.MethodPost, "/api/knowledge", map[string]string{"Content-Type": form.FormDataContentType()}, nil)
	r.Body = body.Bytes()
	var made resource
	if err := o.Ask(ctx, r, &made); err != nil {
		return "", fmt.Errorf("uploading %s: %w", name, err)
	}
	return made.ID, nil
}

// request returns a request with the organization's key. The request has no key if the organization
// has none yet.
func (o *Organization) request(method, path string, headers map[string]string, body any) load.Request {
	r := load.Request{Method: method, Path: path, Headers: map[string]string{}}
	if o.Key != "" {
		r.Headers["x-api-key"] = o.Key
	}
	maps.Copy(r.Headers, headers)
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			panic(err) // cannot happen: bodies are maps of strings and booleans
		}
		r.Body = raw
	}
	return r
}

// Ask sends a request to the ingress and decodes the response into the given value. The error also
// names processes that have ended.
func (o *Organization) Ask(ctx context.Context, r load.Request, into any) error {
	return errors.Join(r.Ask(ctx, o.parley.Base(), into), o.parley.Err())
}

// post sends a POST request and decodes the response.
func (o *Organization) post(ctx context.Context, path string, headers map[string]string, body, into any) error {
	return o.Ask(ctx, o.request(http.MethodPost, path, headers, body), into)
}

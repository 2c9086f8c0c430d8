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

const automationPath = "/api/internal/run-automation"

func automationHeaders(key string) map[string]string {
	return map[string]string{"x-api-key": key, "x-trigger-type": "schedule", "x-automation-id": "bench"}
}

// signUp creates an organization with a key and an agent.
func (p *Parley) signUp(ctx context.Context) error {
	var login struct {
		Token string `json:"token"`
	}

	password := map[string]any{"email": "bench@example.com", "password": "correct horse battery staple"}
	if err := p.post(ctx, "/api/auth/signup", nil, password, &login); err != nil {
		return err
	}

	bearer := map[string]string{"Authorization": "Bearer " + login.Token}
	var key struct {
		Key string `json:"key"`
	}

	err := p.post(ctx, "/api/keys", bearer, map[string]any{"name": "bench", "scope": "organization"}, &key)
	if err != nil {
		return err
	}

	p.Key = key.Key
	p.Agent, err = p.NewAgent(ctx, "Echo", p.config.Model, nil)
	return err
}

// NewAgent creates an agent, which repeats its input.
func (p *Parley) NewAgent(ctx context.Context, name, model string, tools map[string]any) (id string, err error) {
	agent := map[string]any{
		"name": name, "systemPrompt": "Repeat each message.", "model": model, "allowedCallers": []string{"user", "system"},
	}
	if tools != nil {
		agent["tools"] = tools
	}
	var made struct {
		ID string `json:"id"`
	}
	err = p.post(ctx, "/api/agents", map[string]string{"x-api-key": p.Key}, agent, &made)
	return made.ID, err
}

// firstRun checks that the agent works.
func (p *Parley) firstRun(ctx context.Context) error {
	var run load.Run
	if err := p.Ask(ctx, p.Automation(p.Agent, load.Message, "first"), &run); err != nil {
		return err
	}
	return run.Check(load.Message)
}

// Hook creates a webhook for GitHub and returns a delivery to it, signed with the secret.
func (p *Parley) Hook(ctx context.Context, secret string) (load.Spec, error) {
	var hook struct {
		ID string `json:"id"`
	}
	err := p.post(ctx, "/api/hooks", map[string]string{"x-api-key": p.Key}, map[string]any{
		"name": "bench", "agentId": p.Agent, "source": "github", "secret": secret,
		"messageTemplate": "An issue was {{action}} in {{repository.full_name}}: {{issue.title}}. {{issue.body}}",
		"filter":          []map[string]any{{"path": "@event", "op": "eq", "value": "issues"}},
	}, &hook)
	return load.Delivery(p.Address(), "/api/hooks/receive/"+hook.ID, secret), err
}

// Automation triggers a run of an agent and waits for it.
func (p *Parley) Automation(agent, message, key string) load.Request {
	return p.request(http.MethodPost, automationPath, automationHeaders(p.Key),
		map[string]any{"target": agent, "input": map[string]string{"message": message}, "idempotencyKey": key})
}

// Chat sends a message to an agent and waits for the answer, or for the run's events if stream is set.
func (p *Parley) Chat(agent, session, message string, stream bool) load.Request {
	return p.request(http.MethodPost, "/api/agents?action=chat&id="+url.QueryEscape(agent), nil,
		map[string]any{"sessionId": session, "message": message, "stream": stream})
}

// ChatAsync is Chat without the wait.
func (p *Parley) ChatAsync(agent, session, message string) load.Request {
	r := p.Chat(agent, session, message, false)
	r.Headers["Prefer"] = "respond-async"
	return r
}

// Get is a GET request with the organization's key.
func (p *Parley) Get(path string, query url.Values) load.Request {
	return p.request(http.MethodGet, path+"?"+query.Encode(), nil, nil)
}

// Events requests a run's events.
func (p *Parley) Events(runID string) load.Request {
	return p.Get("/api/runs", url.Values{"id": {runID}, "stream": {"1"}})
}

// Upload uploads a document and returns its id.
func (p *Parley) Upload(ctx context.Context, name string, content []byte) (id string, err error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	if err == nil {
		_, err = part.Write(content)
	}
	if err := errors.Join(err, form.Close()); err != nil {
		return "", fmt.Errorf("making form: %w", err)
	}

	r := p.request(http.MethodPost, "/api/knowledge", map[string]string{"Content-Type": form.FormDataContentType()}, nil)
	r.Body = body.Bytes()
	var made struct {
		ID string `json:"id"`
	}
	if err := p.Ask(ctx, r, &made); err != nil {
		return "", fmt.Errorf("uploading %s: %w", name, err)
	}
	return made.ID, nil
}

// request is a request with the organization's key.
func (p *Parley) request(method, path string, headers map[string]string, body any) load.Request {
	r := load.Request{Method: method, Path: path, Headers: map[string]string{"x-api-key": p.Key}}
	maps.Copy(r.Headers, headers)
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			panic(err) // bodies are maps of texts and booleans
		}
		r.Body = raw
	}
	return r
}

// Ask sends a request to the ingress and decodes its answer.
func (p *Parley) Ask(ctx context.Context, r load.Request, into any) error {
	return errors.Join(r.Ask(ctx, p.Base(), into), p.Err())
}

func (p *Parley) post(ctx context.Context, path string, headers map[string]string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("writing body of %s: %w", path, err)
	}
	return p.Ask(ctx, load.Request{Method: http.MethodPost, Path: path, Headers: headers, Body: raw}, into)
}

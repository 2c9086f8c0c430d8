package parley

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// NewAgent makes another agent of the organization, which repeats what it is told.
func (p *Parley) NewAgent(ctx context.Context, client *http.Client, name, model string) (id string, err error) {
	var agent struct {
		ID string `json:"id"`
	}
	err = p.Ask(ctx, client, p.request(http.MethodPost, "/api/agents", nil, map[string]any{
		"name": name, "systemPrompt": "Repeat what you are told.", "model": model, "allowedCallers": []string{"user", "system"},
	}), &agent)
	return agent.ID, err
}

// AutomationOf is Automation of another agent.
func (p *Parley) AutomationOf(agent, message, key string) Request {
	headers := map[string]string{"x-trigger-type": "schedule", "x-automation-id": "bench"}
	return p.request(http.MethodPost, "/api/internal/run-automation", headers,
		map[string]any{"target": agent, "input": map[string]string{"message": message}, "idempotencyKey": key})
}

// ChatOf is Chat with another agent, or ChatStream.
func (p *Parley) ChatOf(agent, session, message string, stream bool) Request {
	return p.request(http.MethodPost, "/api/agents?action=chat&id="+url.QueryEscape(agent), nil,
		map[string]any{"sessionId": session, "message": message, "stream": stream})
}

// Listen sends a request that is answered by events, and gives them as they come.
func (p *Parley) Listen(ctx context.Context, client *http.Client, r Request) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, p.base+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("making request %s: %w", r.Path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", r.Path, err)
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		raw, err := io.ReadAll(res.Body)
		return nil, errors.Join(fmt.Errorf("asking %s: %s of %q: %s", r.Path, res.Status, kind, bytes.TrimSpace(raw)), err, res.Body.Close())
	}
	return res.Body, nil
}

package parley

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"parley/scripts/bench/internal/load"
)

// seed signs up, makes a key and an agent, and runs it once.
func (p *Parley) seed(ctx context.Context) error {
	var login struct {
		Token string `json:"token"`
	}
	account := map[string]any{"email": "bench@example.com", "password": "correct horse battery staple"}
	err := p.post(ctx, "/api/auth/signup", nil, account, &login)
	if err != nil {
		return err
	}
	bearer := map[string]string{"Authorization": "Bearer " + login.Token}
	var key struct {
		Key string `json:"key"`
	}
	if err := p.post(ctx, "/api/keys", bearer, map[string]any{"name": "bench", "scope": "organization"}, &key); err != nil {
		return err
	}
	var agent struct {
		ID string `json:"id"`
	}
	echo := map[string]any{
		"name": "Echo", "systemPrompt": "Repeat what you are told.", "model": p.config.Model, "allowedCallers": []string{"user", "system"},
	}
	if p.config.Tools != nil {
		echo["tools"] = p.config.Tools
	}
	err = p.post(ctx, "/api/agents", bearer, echo, &agent)
	if err != nil {
		return err
	}
	p.key, p.agent = key.Key, agent.ID
	return p.firstRun(ctx)
}

// firstRun says whether what will be measured works, in words when it does not.
func (p *Parley) firstRun(ctx context.Context) error {
	spec := p.Load()
	var run struct {
		Status  string          `json:"status"`
		Message string          `json:"message"`
		Error   json.RawMessage `json:"error"`
	}
	body := json.RawMessage(strings.Replace(spec.Body, load.KeyMark, "first", 1))
	if err := p.post(ctx, spec.Path, spec.Headers, body, &run); err != nil {
		return err
	}
	if run.Status != "completed" || !strings.Contains(run.Message, load.Message) {
		return fmt.Errorf("the echo agent's first run is %q with message %q, error %s", run.Status, run.Message, run.Error)
	}
	return nil
}

// post sends JSON and reads JSON.
func (p *Parley) post(ctx context.Context, path string, headers map[string]string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("writing body of %s: %w", path, err)
	}
	client := &http.Client{}
	defer client.CloseIdleConnections()
	return p.Ask(ctx, client, Request{Method: http.MethodPost, Path: path, Headers: headers, Body: raw}, into)
}

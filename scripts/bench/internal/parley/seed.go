package parley

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"parley/scripts/bench/internal/load"
)

// account is an organization's key and its agent.
type account struct{ key, agent string }

// seed makes the first account, and runs its agent once.
func (p *Parley) seed(ctx context.Context) (err error) {
	if p.account, err = p.join(ctx, "bench@example.com"); err != nil {
		return err
	}
	return p.firstRun(ctx)
}

// Join makes another organization with an agent of its own, and gives run-automation of that.
func (p *Parley) Join(ctx context.Context, email string) (load.Spec, error) {
	other, err := p.join(ctx, email)
	if err != nil {
		return load.Spec{}, err
	}
	return p.automation(other), nil
}

// join signs up, makes a key and an agent.
func (p *Parley) join(ctx context.Context, email string) (account, error) {
	var login struct {
		Token string `json:"token"`
	}
	password := map[string]any{"email": email, "password": "correct horse battery staple"}
	if err := p.post(ctx, "/api/auth/signup", nil, password, &login); err != nil {
		return account{}, err
	}
	bearer := map[string]string{"Authorization": "Bearer " + login.Token}
	var key struct {
		Key string `json:"key"`
	}
	if err := p.post(ctx, "/api/keys", bearer, map[string]any{"name": "bench", "scope": "organization"}, &key); err != nil {
		return account{}, err
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
	err := p.post(ctx, "/api/agents", bearer, echo, &agent)
	return account{key: key.Key, agent: agent.ID}, err
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

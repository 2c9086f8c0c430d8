package parley

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"parley/scripts/bench/internal/load"
	sdk "parley/sdk/go"
)

// automationPath is the path of run-automation requests.
const automationPath = "/api/internal/run-automation"

func chatPath(agent string) string { return "/api/agents?action=chat&id=" + url.QueryEscape(agent) }

// Organization is an organization in Parley, and a client with its API key. Methods that return a
// load send nothing.
type Organization struct {
	*sdk.Client

	Agent string // ID of its first agent

	key    string
	parley *Parley
}

// anonymous is the client of Ask.
var anonymous = &http.Client{}

// Ask sends a request without a credential and returns the body of the response. A status other than
// 2xx is an error.
func Ask(ctx context.Context, method, address string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("creating request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := anonymous.Do(req)
	if err != nil {
		return nil, fmt.Errorf("sending request: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("requesting %s: %s: %s", address, res.Status, raw)
	}
	return raw, err
}

// SignUp creates an organization with a key and an agent.
func (p *Parley) SignUp(ctx context.Context, name, model string) (*Organization, error) {
	raw, err := Ask(ctx, http.MethodPost, p.Base()+"/api/auth/signup",
		[]byte(`{"email":"`+name+`@example.com","password":"correct horse battery staple"}`))
	var login struct {
		Token string `json:"token"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &login)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("signing up: %w", err), p.Err())
	}

	user, err := sdk.New(sdk.Options{BaseURL: p.Base(), Key: login.Token})
	if err != nil {
		return nil, err
	}
	key, err := user.Keys.Create(ctx, sdk.NewKey{Name: "bench", Scope: sdk.KeyScopeOrganization})
	if err != nil {
		return nil, err
	}
	o := &Organization{parley: p, key: key.Key}
	if o.Client, err = sdk.New(sdk.Options{BaseURL: p.Base(), Key: key.Key}); err == nil {
		o.Agent, err = o.NewAgent(ctx, "First", model, nil)
	}
	return o, err
}

// NewAgent creates an agent that repeats its input, and returns the agent's ID. If tools is nil,
// the agent has no tools.
func (o *Organization) NewAgent(ctx context.Context, name, model string, tools *sdk.ToolsChange) (id string, err error) {
	agent, err := o.Agents.Create(ctx, sdk.NewAgent{
		Name: &name, SystemPrompt: new("Repeat each message."), Model: &model, AllowedCallers: []string{"user", "system"}, Tools: tools,
	})
	if err != nil {
		return "", err
	}
	return agent.ID, nil
}

// Hook creates a GitHub webhook. It returns the load that sends deliveries to the webhook, signed
// with the secret.
func (o *Organization) Hook(ctx context.Context, secret string) (load.Spec, error) {
	hook, err := o.Hooks.Create(ctx, sdk.NewHook{
		Name: "bench", AgentID: o.Agent, Source: sdk.HookSourceGithub, Secret: &secret,
		MessageTemplate: "An issue was {{action}} in {{repository.full_name}}: {{issue.title}}. {{issue.body}}",
		Filter:          []sdk.HookFilter{{Path: "@event", Op: "eq", Value: "issues"}},
	})
	if err != nil {
		return load.Spec{}, err
	}
	return load.Delivery(o.parley.Address(), "/api/hooks/receive/"+hook.ID, secret), nil
}

// AwaitReady waits until an uploaded document is searchable.
func (o *Organization) AwaitReady(ctx context.Context, id string) error {
	document, err := o.Knowledge.Wait(ctx, id)
	if err == nil && document.Status != sdk.DocumentStatusReady {
		err = fmt.Errorf("ingesting a document: %+v", document.Error)
	}
	return err
}

// Streams returns a load of streamed chats with an agent, each in its own session.
func (o *Organization) Streams(agent, answer string) load.StreamSpec {
	return load.StreamSpec{
		Address: o.parley.Address(), Path: chatPath(agent), Headers: map[string]string{"x-api-key": o.key},
		Body:  `{"sessionId":"` + load.KeyMark + `","message":"` + load.Message + `","stream":true}`,
		Field: "text", Answer: answer, End: "event: run.completed",
	}
}

// Load returns a load of run-automation requests to an agent.
func (o *Organization) Load(agent string) load.Spec {
	return load.Spec{
		Address: o.parley.Address(), Path: automationPath, Body: load.Body(agent), Expect: `"status":"completed"`,
		Headers: map[string]string{"x-api-key": o.key, "x-trigger-type": "schedule", "x-automation-id": "bench"},
	}
}

// Pages returns a load of requests for the first page of the list of runs.
func (o *Organization) Pages() load.Spec {
	return load.Spec{
		Address: o.parley.Address(), Method: http.MethodGet, Path: "/api/runs?limit=20", Headers: map[string]string{"x-api-key": o.key},
		Expect: `"status":"completed"`,
	}
}

// Chats returns a load of chats with an agent, each in its own session. Its clients do not wait for
// the answers.
func (o *Organization) Chats(agent string) load.Spec {
	return load.Spec{
		Address: o.parley.Address(), Path: chatPath(agent), Headers: map[string]string{"x-api-key": o.key, "Prefer": "respond-async"},
		Body: `{"sessionId":"` + load.KeyMark + `","message":"` + load.Message + `"}`, Expect: `"status":`,
	}
}

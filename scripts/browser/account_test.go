package browser

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/network"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

// client sends the API requests that prepare a test's data. The actions under test happen in the
// browser.
var client = &http.Client{Transport: &http.Transport{}, Timeout: testkit.Within(patienceOfRequests)}

// account is a user with an organization.
type account struct {
	s        *testEnv
	email    string
	password string
	token    string
}

// signUp creates a new user with an organization through the API.
func signUp(t *testing.T) *account {
	t.Helper()
	a := &account{s: withTestEnv(t), email: rand.Text() + "@example.test", password: rand.Text()}
	var made struct{ Token string }
	a.call(t, http.MethodPost, "/api/auth/signup", map[string]any{"email": a.email, "password": a.password, "name": "Ada Example"}, &made)
	a.token = made.Token
	return a
}

// signIn stores the account's session in the browser, as a login does.
func (p *page) signIn(a *account) *page {
	p.t.Helper()
	yes := true
	call(p, network.SetCookie, network.SetCookieParams{
		Name: "parley_session", Value: a.token, URL: a.s.url, HTTPOnly: &yes, SameSite: network.CookieSameSiteLax,
	})
	return p
}

// call sends an API request with the account's session. It fails the test if the request fails.
func (a *account) call(t *testing.T, method, path string, body, into any) {
	t.Helper()
	if err := a.try(t.Context(), method, path, body, into); err != nil {
		t.Fatal(err)
	}
}

// try is like call, but returns an error for a failed request or a response whose status is not in
// success. The argument into may be nil.
func (a *account) try(ctx context.Context, method, path string, body, into any) error {
	header := map[string]string{}
	if a.token != "" {
		header["Authorization"] = "Bearer " + a.token
	}
	got := api.SendBy(ctx, client, method, a.s.url+path, header, body)
	if err := got.Check(success...); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(got.Body, into); err != nil {
		return fmt.Errorf("decoding %s: %w", got.Body, err)
	}
	return nil
}

// success contains the statuses of successful responses.
var success = []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}

// on enables a tool.
var on = map[string]any{"enabled": true}

// agent creates an agent and returns its ID. The request's body has default values; the argument
// fields adds values and replaces defaults.
func (a *account) agent(t *testing.T, name string, fields map[string]any) (id string) {
	t.Helper()
	body := map[string]any{"name": name, "systemPrompt": "Answer briefly.", "allowedCallers": []string{"user", "system"}}
	maps.Copy(body, fields)
	var made struct{ ID string }
	a.call(t, http.MethodPost, "/api/agents", body, &made)
	return made.ID
}

// till returns the configuration of a tool that pays a bill at the test's till. Each call needs a
// person's approval.
func (a *account) till() map[string]any {
	return map[string]any{"httpRequest": map[string]any{"enabled": true, "approval": "unsafe", "endpoints": []any{map[string]any{
		"name": "payBill", "description": "Pays a bill.", "method": "POST", "url": a.s.outside.url + "/pay", "sideEffect": "unsafe",
		"inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"bill": map[string]any{"type": "string"}}, "required": []string{"bill"},
		},
	}}}}
}

// document uploads a text and waits until it can be searched.
func (a *account) document(t *testing.T, name, content string) (id string) {
	t.Helper()
	var made struct{ ID string }
	a.call(t, http.MethodPost, "/api/knowledge", map[string]any{"name": name, "content": content, "mimeType": "text/markdown"}, &made)
	eventually(t, "the document "+name+" is ready", func() bool {
		var now struct{ Status, Error string }
		a.call(t, http.MethodGet, "/api/knowledge?id="+made.ID, nil, &now)
		if now.Status == "failed" {
			t.Fatalf("the document %s failed: %s", name, now.Error)
		}
		return now.Status == "ready"
	})
	return made.ID
}

// chat sends a message to an agent and returns the run once it has finished or waits for a
// decision.
func (a *account) chat(t *testing.T, agent, session, message string) (r api.Run) {
	t.Helper()
	a.call(t, http.MethodPost, "/api/agents?action=chat&id="+agent, map[string]any{"sessionId": session, "message": message}, &r)
	return r
}

// key creates an API key.
func (a *account) key(t *testing.T, name string) (secret string) {
	t.Helper()
	var made struct{ Key string }
	a.call(t, http.MethodPost, "/api/keys", map[string]any{"name": name, "scope": "organization"}, &made)
	return made.Key
}

// trigger starts a run of an agent with an API key, as a scheduler does. It returns the run's
// outcome.
func (a *account) trigger(t *testing.T, key, agent, automation, message string) (r api.Run) {
	t.Helper()
	header := map[string]string{"x-api-key": key, "x-trigger-type": "schedule", "x-automation-id": automation}
	body := map[string]any{"target": agent, "input": map[string]any{"message": message}}
	got := api.SendBy(t.Context(), client, http.MethodPost, a.s.url+"/api/internal/run-automation", header, body)
	got.Want(t, success...).Into(t, &r)
	return r
}

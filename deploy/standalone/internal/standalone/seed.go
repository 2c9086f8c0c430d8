package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"parley/shared/apierr"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/templates"
)

// ownerEmail identifies the owner's account, and demoAgent is the name of the first agent.
// loginLinkLife is the time for which a login link is valid. seedTimeout is the time limit of
// seeding.
const (
	ownerEmail    = "owner@parley.local"
	demoAgent     = "Demo agent"
	loginLinkLife = 24 * time.Hour
	seedTimeout   = 20 * time.Second
)

// credentials contains the values in credentials.json, which scripts need to use the service. Field
// names are documented and must not change. LoginURL works once and is new at each start.
type credentials struct {
	BaseURL        string `json:"baseUrl"`
	APIKey         string `json:"apiKey"`
	OrganizationID string `json:"organizationId"`
	AgentID        string `json:"agentId"`
	LoginURL       string `json:"loginUrl"`
}

// seeder creates an organization, an API key, agents and a first run in a new service, through the
// service's HTTP API. At every start, it also creates a login link. Operations that the API does
// not offer, such as a login without a password, use the store.
type seeder struct {
	store     *store.Store
	baseURL   string
	publicURL string // public URL of the service, for the login link; empty: baseURL
	// file is the path of credentials.json.
	file string
}

// seed creates what is missing and writes credentials.json. It checks each part separately: an
// earlier start may have been interrupted at any point, and users may have deleted parts. seed is
// idempotent and takes at most seedTimeout.
func (s seeder) seed(ctx context.Context) (credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()

	creds, err := s.known()
	if err != nil {
		return creds, err
	}

	// The other parts belong to the owner, so the account comes first.
	owner, err := s.owner(ctx)
	if err != nil {
		return creds, fmt.Errorf("seeding: %w", err)
	}

	for _, ensure := range []func(context.Context, string, *credentials) error{s.ensureKey, s.ensureAgent} {
		if err := ensure(ctx, owner, &creds); err != nil {
			return creds, fmt.Errorf("seeding: %w", err)
		}
	}

	creds.BaseURL = s.baseURL
	if s.publicURL != "" {
		creds.BaseURL = s.publicURL
	}
	if creds.LoginURL, err = s.loginURL(ctx, owner, creds.BaseURL); err != nil {
		return creds, err
	}
	return creds, s.write(creds)
}

// known returns the credentials that an earlier start has written, or empty ones if there are none.
// A damaged file is an error, and the user must delete it.
func (s seeder) known() (credentials, error) {
	var creds credentials
	raw, err := os.ReadFile(s.file)
	if errors.Is(err, os.ErrNotExist) {
		return creds, nil
	}
	if err != nil {
		return creds, fmt.Errorf("reading credentials: %w", err)
	}
	if err := json.Unmarshal(raw, &creds); err != nil {
		return creds, fmt.Errorf("reading %s: %w; delete the file to create a new one", s.file, err)
	}
	return creds, nil
}

// owner returns the ID of the owner's account. If the account does not exist, it creates the
// account, without a password; the first login adds an organization. The email address counts as
// verified, so that no invitation link can take over the account.
func (s seeder) owner(ctx context.Context) (string, error) {
	owner, _, err := s.store.Accounts.UserByEmail(ctx, ownerEmail)
	if err == nil {
		return owner.ID, s.store.Accounts.ProveAddress(ctx, owner.ID)
	}
	if apierr.CodeFor(err) != apierr.NotFound {
		return "", err
	}

	if owner, err = s.store.Accounts.CreateUser(ctx, accountdb.NewUser{Email: ownerEmail, Name: "Owner"}); err != nil {
		return "", err
	}
	return owner.ID, s.store.Accounts.ProveAddress(ctx, owner.ID)
}

// ensureKey creates an API key, unless the service still accepts the existing key. It logs the
// owner in to create the key, and then out.
func (s seeder) ensureKey(ctx context.Context, owner string, creds *credentials) error {
	if creds.APIKey != "" {
		err := s.call(ctx, http.MethodGet, "/api/auth/session", header{"x-api-key", creds.APIKey}, nil, nil)
		if _, refused := errors.AsType[*refusal](err); !refused {
			return err
		}
	}

	token := secrets.NewSessionToken()
	login := accountdb.NewLogin{TokenHash: secrets.Hash(token), ExpiresAt: time.Now().Add(seedTimeout)}
	account, err := s.store.Accounts.LogIn(ctx, owner, login)
	if err != nil {
		return fmt.Errorf("logging in the owner: %w", err)
	}

	var key struct {
		Key string `json:"key"`
	}

	bearer := header{"Authorization", "Bearer " + token}
	err = s.call(ctx, http.MethodPost, "/api/keys", bearer, map[string]any{"name": "first key", "scope": "organization"}, &key)
	if err != nil {
		return err
	}
	creds.APIKey, creds.OrganizationID = key.Key, account.Organization.ID
	return s.store.Accounts.LogOut(ctx, secrets.Hash(token))
}

// ensureAgent creates the demo agents, unless the first of them already exists. An agent that the
// user has deleted is created again only if no agent has its name.
func (s seeder) ensureAgent(ctx context.Context, _ string, creds *credentials) error {
	key := header{"x-api-key", creds.APIKey}
	if creds.AgentID != "" {
		err := s.call(ctx, http.MethodGet, "/api/agents?id="+creds.AgentID, key, nil, nil)
		if _, refused := errors.AsType[*refusal](err); !refused {
			return err
		}
	}

	var found struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := s.call(ctx, http.MethodGet, "/api/agents?limit=1&q="+url.QueryEscape(demoAgent), key, nil, &found); err != nil {
		return err
	}
	if len(found.Data) > 0 {
		creds.AgentID = found.Data[0].ID
		return nil
	}

	err := s.documents(ctx, key) // this comes before the agents, because the existence of agents means that the documents exist
	if err != nil {
		return err
	}

	creds.AgentID, err = s.agents(ctx, key)
	return err
}

// documents adds the sample documents. The service processes them in the background. A repeated
// call creates no duplicates. A quota of zero documents is not an error.
func (s seeder) documents(ctx context.Context, key header) error {
	err := s.call(ctx, http.MethodPost, "/api/knowledge/samples", key, nil, nil)
	if why, is := errors.AsType[*refusal](err); is && why.status == http.StatusTooManyRequests {
		return nil // the settings do not allow documents
	}
	return err
}

// agents creates the demo agent and an agent that repeats its input, and runs the demo agent once.
// It returns the ID of the demo agent. The run has an idempotency key, so that a repeated call
// starts no second run.
func (s seeder) agents(ctx context.Context, key header) (string, error) {
	on := map[string]any{"enabled": true}
	both := []string{"user", "system"}
	demo := map[string]any{
		"name": demoAgent, "description": "Answers chats and automations; change it or create another one.",
		"systemPrompt": "You are a helpful agent. Answer briefly and cite your sources.", "allowedCallers": both,
		"tools":       map[string]any{"webSearch": on, "codeExecution": on, "knowledge": on, "voice": on},
		"suggestions": templates.DemoSuggestions(),
	}

	echo := map[string]any{
		"name": "Echo agent", "description": "Repeats each message: for tests and benchmarks.",
		"systemPrompt": "Repeat the message.", "model": "offline/echo", "allowedCallers": both,
		"suggestions": templates.EchoSuggestions(),
	}

	var made struct {
		ID string `json:"id"`
	}

	for _, agent := range []map[string]any{echo, demo} {
		if err := s.call(ctx, http.MethodPost, "/api/agents", key, agent, &made); err != nil {
			return "", err
		}
	}

	question := map[string]any{"message": "What is 6 times 7?"}
	run := map[string]any{"target": made.ID, "input": question, "idempotencyKey": "first-run-" + made.ID}
	return made.ID, s.call(ctx, http.MethodPost, "/api/internal/run-automation", key, run, nil)
}

// loginURL returns a link with which the owner can log in once, within loginLinkLife. Only a hash
// of the token is stored.
func (s seeder) loginURL(ctx context.Context, owner, base string) (string, error) {
	token := secrets.NewLinkToken()
	if err := s.store.Accounts.CreateLoginLink(ctx, owner, secrets.Hash(token), time.Now().Add(loginLinkLife)); err != nil {
		return "", err
	}
	return base + "/login?token=" + token, nil
}

// write replaces credentials.json atomically, so that other processes never read an incomplete
// file. Only the owner of the file can read it.
func (s seeder) write(creds credentials) error {
	raw, err := json.MarshalIndent(creds, "", "  ") //nolint:gosec // G117: the file's purpose is to store the key; its mode is 0600
	if err != nil {
		return fmt.Errorf("encoding credentials: %w", err)
	}
	next := s.file + ".new"
	if err := os.WriteFile(next, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing credentials: %w", err)
	}
	if err := os.Rename(next, s.file); err != nil {
		return fmt.Errorf("writing credentials: %w", err)
	}
	return nil
}

// header is a header of a request. An empty name means no header.
type header struct{ name, value string }

// refusal is an error response of the service. It distinguishes a rejected request from a service
// that cannot be reached.
type refusal struct {
	status int
	code   string
	detail string
}

// Error returns the status, the code and the detail.
func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.status, r.code, r.detail) }

// loopback is an HTTP client for the service in this process. It uses no proxy.
var loopback = &http.Client{Transport: &http.Transport{}}

// call sends a JSON request to the service and decodes the response into the value to which into
// points. body and into may be nil. An error response is a *refusal. call never retries.
func (s seeder) call(ctx context.Context, method, path string, auth header, body, into any) error {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}

	req, err := http.NewRequestWithContext(ctx, method, s.baseURL+path, payload)
	if err != nil {
		return fmt.Errorf("creating request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set(auth.name, auth.value)

	res, err := loopback.Do(req)
	if err != nil {
		return fmt.Errorf("calling %s: %w", path, err)
	}
	defer func() { _ = res.Body.Close() }() // the response is read to its end below

	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading the response from %s: %w", path, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		var problem struct {
			Code   string `json:"code"`
			Detail string `json:"detail"`
		}
		_ = json.Unmarshal(raw, &problem) // the error needs only the status; the body may not be JSON
		return &refusal{status: res.StatusCode, code: problem.Code, detail: problem.Detail}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("decoding the response from %s: %w", path, err)
	}
	return nil
}

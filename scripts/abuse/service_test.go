package abuse

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"parley/scripts/internal/api"
	"parley/scripts/internal/quickstart"
	"parley/shared/testkit"
)

// otherBinary is the environment variable with the path of another `parley` program to attack.
const otherBinary = "PARLEY_ABUSE_BINARY"

// service is a running Parley with default settings, except for those passed to newService.
type service struct {
	url     string
	process *testkit.Process

	strangers int // number of client addresses in use besides the victim's
}

// newService starts `parley up` in a new directory, with settings of the form "KEY=value".
func newService(t *testing.T, settings ...string) *service {
	t.Helper()
	path := os.Getenv(otherBinary)
	if path == "" {
		path = testkit.BuildBinary(t, "deploy/standalone/cmd/parley")
	}

	dir := filepath.Join(t.TempDir(), "data")
	environment := append(quickstart.Environment(dir, testkit.FreePort(t)), "LOG_LEVEL=warn")
	process := testkit.StartProcess(t, testkit.Command{
		Name: "parley", Path: path, Args: []string{"up"}, Env: append(environment, settings...), ReadyLine: quickstart.BannerEnd,
	})

	made, err := quickstart.ReadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &service{url: made.BaseURL, process: process}
}

// person is an account with an organization. The account needs no privilege, so anybody could
// create it.
type person struct {
	*client

	email, password string
	token           string // token of the login session
	organization    string
	key             string // API key of the organization; empty until withKey has created it
	agent           string // ID of the agent; empty until withAgent has created it
}

// signUp creates an account that connects from the given client address.
func (s *service) signUp(t *testing.T, address string) *person {
	t.Helper()
	p := &person{client: s.from(t, address), email: rand.Text() + "@example.test", password: rand.Text()}
	var made struct {
		Token        string `json:"token"`
		Organization struct {
			ID string `json:"id"`
		} `json:"organization"`
	}
	p.post(t.Context(), "/api/auth/signup", nil, p.credentials()).Want(t, http.StatusCreated).Into(t, &made)
	p.token, p.organization = made.Token, made.Organization.ID
	return p
}

func (p *person) credentials() any { return map[string]any{"email": p.email, "password": p.password} }

func (p *person) bearer() header { return header{"Authorization": "Bearer " + p.token} }

func (p *person) byKey() header { return header{"X-Api-Key": p.key} }

// withKey creates an API key of the person's organization and stores it in the person.
func (p *person) withKey(t *testing.T) *person {
	t.Helper()
	p.key = p.newKey(t, "organization")
	return p
}

func (p *person) newKey(t *testing.T, scope string) string {
	t.Helper()
	var made struct {
		Key string `json:"key"`
	}
	p.post(t.Context(), "/api/keys", p.bearer(), map[string]any{"name": "abuse", "scope": scope}).Want(t, http.StatusCreated).Into(t, &made)
	return made.Key
}

// withAgent creates an agent that answers each message with the message itself.
func (p *person) withAgent(t *testing.T) *person {
	t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	p.post(t.Context(), "/api/agents", p.bearer(), map[string]any{
		"name": "Abuse", "systemPrompt": "Repeat the message.", "model": "offline/echo",
		"allowedCallers": []string{"user", "system"}, "tools": map[string]any{},
	}).Want(t, http.StatusCreated).Into(t, &made)
	p.agent = made.ID
	return p
}

// chat sends a message to the person's agent and waits for the answer.
func (p *person) chat(ctx context.Context, by header, message string) api.Answer {
	return p.post(ctx, "/api/agents?action=chat&id="+p.agent, by, map[string]any{"message": message, "sessionId": rand.Text()})
}

// trigger starts a run of the person's agent with a run-automation request, as a scheduler would.
func (p *person) trigger(ctx context.Context, key, message string) api.Answer {
	return p.post(ctx, "/api/internal/run-automation", header{"X-Api-Key": key},
		map[string]any{"target": p.agent, "input": map[string]any{"message": message}})
}

// stranger returns a client address that is not used yet. The victim uses 127.0.0.1.
func (s *service) stranger() string {
	s.strangers++
	return fmt.Sprintf("127.0.%d.%d", 1+s.strangers/200, 1+s.strangers%200)
}

const victimAddress = "127.0.0.1"

package api

import (
	"crypto/rand"
	"net/http"
	"testing"
)

// SignUp creates an organization and returns an API key of it.
func SignUp(tb testing.TB, url string) (key string) {
	tb.Helper()
	var made struct{ Token, Key string }
	create(tb, url+"/api/auth/signup", nil, map[string]any{"email": rand.Text() + "@example.test", "password": rand.Text()}, &made)
	create(tb, url+"/api/keys", map[string]string{"Authorization": "Bearer " + made.Token},
		map[string]any{"name": "test", "scope": "organization"}, &made)
	return made.Key
}

// CreateAgent creates an agent of the key's organization and returns its ID. Users and the system
// may call the agent.
func CreateAgent(tb testing.TB, url, key string, agent map[string]any) (id string) {
	tb.Helper()
	agent["allowedCallers"] = []string{"user", "system"}
	var made struct{ ID string }
	create(tb, url+"/api/agents", map[string]string{"X-Api-Key": key}, agent, &made)
	return made.ID
}

// create sends a request whose response must have status 201, and decodes the response.
func create(tb testing.TB, url string, header map[string]string, body, made any) {
	tb.Helper()
	Send(tb.Context(), http.MethodPost, url, header, body).Want(tb, http.StatusCreated).Into(tb, made)
}

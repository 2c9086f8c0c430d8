package cluster

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"
)

// accountTimeout is the timeout of a request that creates an account or an agent. It exceeds every
// limit of the service.
const accountTimeout = 80 * time.Second

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
	raw, err := json.Marshal(body)
	if err != nil {
		tb.Fatal(err)
	}
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		tb.Fatal(err)
	}

	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: accountTimeout}
	res, err := client.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()

	raw, err = io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusCreated {
		tb.Fatalf("POST %s: status %d, %v: %s", url, res.StatusCode, err, raw)
	}
	if err := json.Unmarshal(raw, made); err != nil {
		tb.Fatalf("POST %s: %v: %s", url, err, raw)
	}
}

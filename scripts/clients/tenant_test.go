package clients

import (
	"crypto/rand"
	"net/http"
	"testing"

	"parley/scripts/internal/quickstart"
)

// tenant creates an organization for one test, with a key and an agent that has tools. In its own
// organization, a test can use fixed names from a document, such as idempotency keys.
func (s *testEnv) tenant(t *testing.T) quickstart.Credentials {
	t.Helper()
	s.mu.Lock()
	token := s.owner
	if token == "" {
		var made struct{ Token string }
		body := map[string]any{"email": rand.Text() + "@example.test", "password": rand.Text(), "name": "Ada Example"}
		s.callAs(t, nil, http.MethodPost, "/api/auth/signup", body, &made)
		s.owner, token = made.Token, made.Token
	}

	s.mu.Unlock()
	who := map[string]string{"Authorization": "Bearer " + token}
	var organization, agent struct{ ID string }
	s.callAs(t, who, http.MethodPost, "/api/organizations", map[string]any{"name": t.Name()}, &organization)
	who["X-Organization-Id"] = organization.ID
	var key struct{ Key string }
	s.callAs(t, who, http.MethodPost, "/api/keys", map[string]any{"name": "test", "scope": "organization"}, &key)
	on := map[string]any{"enabled": true}
	s.callAs(t, who, http.MethodPost, "/api/agents", map[string]any{
		"name": "Demo agent", "systemPrompt": "Answer briefly.", "allowedCallers": []string{"user", "system"},
		"tools": map[string]any{"codeExecution": on, "knowledge": on, "webSearch": on},
	}, &agent)

	return quickstart.Credentials{
		BaseURL: s.parley.BaseURL, APIKey: key.Key, OrganizationID: organization.ID, AgentID: agent.ID, LoginURL: s.parley.LoginURL,
	}
}

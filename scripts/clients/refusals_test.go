package clients

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit"
	"parley/shared/testkit/modelstub"
)

// refusing wraps a model provider. It rejects a request whose last message begins with "refuse ".
// The text of that message is the message of the error.
func refusing(model http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := modelstub.ReadBody(r)
		if err != nil {
			return // the request is incomplete
		}
		var request struct {
			Messages []struct {
				Content any `json:"content"`
			} `json:"messages"`
		}
		if json.Unmarshal([]byte(body), &request) == nil && len(request.Messages) > 0 {
			if text, ok := request.Messages[len(request.Messages)-1].Content.(string); ok && strings.HasPrefix(text, "refuse ") {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"type": "invalid_request_error", "message": text}})
				return
			}
		}
		model.ServeHTTP(w, r)
	})
}

// memberKey adds a user with the role member to the organization, and returns an API key of this
// user.
func (s *testEnv) memberKey(t *testing.T, organization string) string {
	t.Helper()
	s.mu.Lock()
	owner := map[string]string{"Authorization": "Bearer " + s.owner, "X-Organization-Id": organization}
	s.mu.Unlock()
	var invitation struct{ URL string }
	email := rand.Text() + "@example.test"
	s.callAs(t, owner, http.MethodPost, "/api/organizations/members", map[string]any{"email": email, "role": "member"}, &invitation)
	link, err := url.Parse(invitation.URL)
	if err != nil {
		t.Fatal(err)
	}

	var member, key struct{ Token, Key string }
	s.callAs(t, nil, http.MethodPost, "/api/auth/accept",
		map[string]any{"token": link.Query().Get("token"), "name": "Ada Example", "password": rand.Text()}, &member)
	s.callAs(t, map[string]string{"Authorization": "Bearer " + member.Token}, http.MethodPost, "/api/keys",
		map[string]any{"name": "test", "scope": "user"}, &key)
	return key.Key
}

// TestRefusals runs agents whose model provider rejects requests and drops streams. The script
// checks the errors that OpenAI's client, admins and members receive. The test checks the log and
// the number of calls of the model.
func TestRefusals(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var got struct {
		Rejected string
		Took     float64 // seconds until the run failed because of dropped streams
	}
	home := s.tenant(t)
	agent := func(model string) string {
		var made struct{ ID string }
		s.callAs(t, map[string]string{"X-Api-Key": home.APIKey}, http.MethodPost, "/api/agents",
			map[string]any{"name": "Refused", "systemPrompt": "Answer briefly.", "model": model}, &made)
		return made.ID
	}
	decode(t, []byte(s.node(t, "refusals.mjs", "PARLEY_API_KEY="+home.APIKey, "ORGANIZATION_ID="+home.OrganizationID, "MEMBER_KEY="+s.memberKey(t, home.OrganizationID),
		"STUB_ID="+agent("openai/stub"), "DROPS_ID="+agent("openai/drops"))), &got) // "drops" has its own circuit breaker, which counts faults
	if got.Took > testkit.Within(20*time.Second).Seconds() {
		t.Errorf("a provider that drops every stream was given up after %.0f s", got.Took)
	}
	if n := s.model.Count("fault eof: refusal-dropped one two three four"); n != 4 {
		t.Errorf("the model was called %d times", n)
	}

	logged := false
	for line := range bytes.Lines(s.parley.Output()) {
		if bytes.Contains(line, []byte(got.Rejected)) && bytes.Contains(line, []byte("attempt failed")) {
			logged = bytes.Contains(line, []byte(`"provider_status":400`)) && !bytes.Contains(line, []byte("max_tokens"))
		}
	}
	if !logged {
		t.Error("the log lacks the provider's status")
	}
}

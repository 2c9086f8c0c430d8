package httpapi

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/ingress/internal/auth"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/testkit"
)

func TestRotatingKeys(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea, cleo := w.signUp("ada@example.com"), w.signUp("bea@example.com"), w.signUp("cleo@example.com")
	w.join(bea, ada.org, domain.RoleMember)
	at := "X-Organization-Id: " + ada.org
	ends := time.Now().Add(30 * 24 * time.Hour).UTC().Format(time.RFC3339)
	made := w.do("POST", "/api/keys", `{"name":"deploy","scope":"organization","expiresAt":"`+ends+`"}`, ada.auth).want(t, "making", 201, "")
	old, oldID := "X-Api-Key: "+made.text(t, "key"), made.text(t, "id")
	_, userKey := w.key(bea, domain.KeyScopeUser)
	rotate := func(keyID, body string, who ...string) answer {
		return w.do("POST", "/api/keys?action=rotate&id="+keyID, body, who...)
	}
	for name, c := range map[string]struct {
		id, body, problems string
		who                []string
		status             int
	}{
		"negative":             {oldID, `{"overlapSeconds":-1}`, "invalid_request overlapSeconds:invalid_value", []string{ada.auth}, 400},
		"eight days":           {oldID, `{"overlapSeconds":604801}`, "invalid_request overlapSeconds:invalid_value", []string{ada.auth}, 400},
		"half a second":        {oldID, `{"overlapSeconds":0.5}`, "invalid_request overlapSeconds:invalid_type", []string{ada.auth}, 400},
		"another name":         {oldID, `{"name":"x"}`, "invalid_request name:unknown_field", []string{ada.auth}, 400},
		"no id":                {"", `{}`, "invalid_request id:invalid_value", []string{ada.auth}, 400},
		"by a member":          {oldID, `{}`, "permission_denied", []string{bea.auth, at}, 403},
		"by a stranger":        {oldID, `{}`, "not_found", []string{cleo.auth}, 404},
		"a colleague's":        {userKey, `{}`, "not_found", []string{ada.auth}, 404},
		"unknown":              {id.New(id.Key), `{}`, "not_found", []string{ada.auth}, 404},
		"another kind":         {ada.org, `{}`, "not_found", []string{ada.auth}, 404},
		"a member's own":       {userKey, `{"overlapSeconds":604800}`, "", []string{bea.auth, at}, 201},
		"a member's own again": {userKey, ``, "", []string{bea.auth, at}, 201},
	} {
		rotate(c.id, c.body, c.who...).want(t, name, c.status, c.problems)
	}
	a := rotate(oldID, `{}`, old).want(t, "by itself", 201, "")
	fresh, freshID := "X-Api-Key: "+a.text(t, "key"), a.text(t, "id")
	if freshID == oldID || a.text(t, "name") != "deploy" || a.text(t, "scope") != "organization" || a.text(t, "expiresAt") != ends[:19]+".000Z" ||
		!strings.HasPrefix(a.text(t, "key"), a.text(t, "prefix")+"_") {
		t.Errorf("new key %s", a.body)
	}
	w.do("GET", "/api/auth/session", "", old).want(t, "the old key in the overlap", 200, "")
	w.do("GET", "/api/auth/session", "", fresh).want(t, "the new key", 200, "")
	for _, shown := range []struct {
		id    string
		after time.Duration
	}{{oldID, 24 * time.Hour}, {freshID, 30 * 24 * time.Hour}} {
		left := time.Until(w.keyEnd(t, ada, shown.id)) - shown.after
		if left > 0 || left < -time.Minute {
			t.Errorf("%s ends %v off", shown.id, left)
		}
	}
	// The overlap of a rotation does not extend the old key's own expiry. With an overlap of 0, the
	// old key expires immediately.
	rotate(freshID, `{"overlapSeconds":604800}`, ada.auth).want(t, "a week", 201, "")
	rotate(oldID, `{"overlapSeconds":0}`, ada.auth).want(t, "at once", 201, "")
	w.do("GET", "/api/auth/session", "", old).want(t, "the old key after that", 401, "unauthenticated")
	rotate(oldID, `{}`, ada.auth).want(t, "an ended key", 404, "not_found")
	w.do("DELETE", "/api/keys?id="+freshID, "", ada.auth).want(t, "revoking", 200, "")
	rotate(freshID, `{}`, ada.auth).want(t, "a revoked key", 404, "not_found")
}

// keyEnd returns the expiry of a key, as shown in the list of keys.
func (w *testEnv) keyEnd(t *testing.T, p person, keyID string) time.Time {
	t.Helper()
	all := w.do("GET", "/api/keys?limit=100", "", p.auth).want(t, "listing", 200, "")
	entries, _ := all.json(t, "data").([]any)
	for _, entry := range entries {
		if key, _ := entry.(map[string]any); key["id"] == keyID {
			at, err := time.Parse(time.RFC3339, key["expiresAt"].(string))
			must(t, err)
			return at
		}
	}
	t.Fatalf("%s is not listed: %s", keyID, all.body)
	return time.Time{}
}

// TestRevocationOnAnotherIngress uses a second resolver, which has the same database but is not
// notified of the revocation.
func TestRevocationOnAnotherIngress(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	key, keyID := w.key(ada, domain.KeyScopeOrganization)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	other := auth.New(w.store.Accounts, nil, nil)
	var wg sync.WaitGroup
	wg.Go(func() { other.Run(ctx) })
	resolve := func(header string) error {
		req := httptest.NewRequestWithContext(ctx, "GET", "/api/agents", nil)
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
		_, err := other.Resolve(req, auth.NeedUser)
		return err
	}
	for _, header := range []string{key, ada.auth} {
		must(t, resolve(header))
	}
	began := time.Now()
	w.do("DELETE", "/api/keys?id="+keyID, "", ada.auth).want(t, "revoking", 200, "")
	w.do("POST", "/api/auth/logout", "", ada.auth).want(t, "logging out", 204, "")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, header := range []string{key, ada.auth} {
		for apierr.CodeFor(resolve(header)) != apierr.Unauthenticated {
			if time.Since(began) > testkit.Within(5*time.Second) {
				t.Fatalf("%s… still works elsewhere after 5 s", header[:20])
			}
			<-tick.C
		}
	}
	stop()
	wg.Wait()
}

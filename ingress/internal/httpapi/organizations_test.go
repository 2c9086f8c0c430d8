package httpapi

import (
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
)

func TestOrganizations(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	orgKey, _ := w.key(ada, domain.KeyScopeOrganization)
	userKey, _ := w.key(ada, domain.KeyScopeUser)
	w.join(bea, ada.org, domain.RoleMember)
	atHome := "X-Organization-Id: " + ada.org

	for name, c := range map[string]struct {
		body, problems string
		who            []string
		status         int
	}{
		"nothing":         {`{}`, "invalid_request name:required", []string{ada.auth}, 400},
		"empty":           {`{"name":""}`, "invalid_request name:too_short", []string{ada.auth}, 400},
		"long":            {`{"name":"` + strings.Repeat("x", 121) + `"}`, "invalid_request name:too_long", []string{ada.auth}, 400},
		"own id":          {`{"name":"x","id":"` + ada.org + `"}`, "invalid_request id:unknown_field", []string{ada.auth}, 400},
		"own role":        {`{"name":"x","role":"owner"}`, "invalid_request role:unknown_field", []string{ada.auth}, 400},
		"nobody":          {`{"name":"x"}`, "unauthenticated", nil, 401},
		"demo":            {`{"name":"x"}`, "demo_restricted", []string{"X-Tenant-Id: tenant_demo"}, 403},
		"organization":    {`{"name":"x"}`, "permission_denied", []string{orgKey}, 403},
		"user's key":      {`{"name":"of a key"}`, "", []string{userKey, atHome}, 201},
		"member anywhere": {`{"name":"of a member"}`, "", []string{bea.auth, atHome}, 201},
	} {
		w.do("POST", "/api/organizations", c.body, c.who...).want(t, name, c.status, c.problems)
	}
	a := w.do("POST", "/api/organizations", `{"name":"Second"}`, ada.auth).want(t, "making", 201, "")
	second := a.text(t, "id")
	if !id.Valid(id.Organization, second) || a.text(t, "name") != "Second" || a.text(t, "role") != "owner" || a.text(t, "createdAt") == "" {
		t.Errorf("made %s", a.body)
	}
	w.do("GET", "/api/auth/session", "", ada.auth, "X-Organization-Id: "+second).want(t, "acting in it at once", 200, "")
	if got := w.do("GET", "/api/auth/session", "", ada.auth).text(t, "organization.id"); got != ada.org {
		t.Errorf("default organization is now %s", got)
	}
	list := string(w.do("GET", "/api/organizations", "", ada.auth).want(t, "listing", 200, "").body)
	if strings.Index(list, second) > strings.Index(list, ada.org) || strings.Count(list, `"role":"owner"`) != 3 || strings.Contains(list, bea.org) {
		t.Errorf("list %s", list)
	}
	first := w.do("GET", "/api/organizations?limit=1", "", ada.auth).want(t, "first page", 200, "")
	rest := w.do("GET", "/api/organizations?limit=2&cursor="+first.text(t, "nextCursor"), "", ada.auth).want(t, "second page", 200, "")
	if first.text(t, "data.0.id") != second || rest.text(t, "data.1.id") != ada.org || rest.json(t, "hasMore") != false {
		t.Errorf("pages %s and %s", first.body, rest.body)
	}
	if one := w.do("GET", "/api/organizations?id="+ada.org, "", orgKey).want(t, "a key's own", 200, ""); one.text(t, "role") != "admin" {
		t.Errorf("a key's own organization: %s", one.body)
	}
	if all := w.do("GET", "/api/organizations", "", orgKey).want(t, "a key's list", 200, ""); all.text(t, "data.0.id") != ada.org || all.json(t, "data.1") != nil {
		t.Errorf("a key's organizations: %s", all.body)
	}
	w.do("GET", "/api/organizations?id="+second, "", orgKey).want(t, "another one of its maker's", 404, "not_found")
	if one := w.do("GET", "/api/organizations?id="+ada.org, "", bea.auth).want(t, "a member's", 200, ""); one.text(t, "role") != "member" {
		t.Errorf("a member's: %s", one.body)
	}
}

func TestRenamingOrganizations(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	orgKey, _ := w.key(ada, domain.KeyScopeOrganization)
	w.join(bea, ada.org, domain.RoleAdmin)
	whole := w.do("GET", "/api/organizations?id="+ada.org, "", ada.auth)
	for name, c := range map[string]struct {
		query, body, problems, who string
		status                     int
	}{
		"owner":               {"?id=" + ada.org, `{"name":"New"}`, "", ada.auth, 200},
		"as it was read":      {"?id=" + ada.org, string(whole.body), "", ada.auth, 200},
		"admin":               {"?id=" + ada.org, `{"name":"x"}`, "permission_denied", bea.auth, 403},
		"its key":             {"?id=" + ada.org, `{"name":"x"}`, "permission_denied", orgKey, 403},
		"foreign":             {"?id=" + bea.org, `{"name":"x"}`, "not_found", ada.auth, 404},
		"foreign to a key":    {"?id=" + bea.org, `{"name":"x"}`, "not_found", orgKey, 404},
		"unknown":             {"?id=" + id.New(id.Organization), `{"name":"x"}`, "not_found", ada.auth, 404},
		"malformed":           {"?id=org_x", `{"name":"x"}`, "not_found", ada.auth, 404},
		"of another kind":     {"?id=" + ada.id, `{"name":"x"}`, "not_found", ada.auth, 404},
		"no id":               {"", `{"name":"x"}`, "invalid_request id:required", ada.auth, 400},
		"no name":             {"?id=" + ada.org, `{}`, "", ada.auth, 200},
		"unknown field":       {"?id=" + ada.org, `{"name":"x","owner":"y"}`, "invalid_request owner:unknown_field", ada.auth, 400},
		"acting in another":   {"?id=" + bea.org, `{"name":"Bea's own"}`, "", bea.auth, 200},
		"the demo's":          {"?id=" + domain.DemoOrganization, `{"name":"x"}`, "not_found", ada.auth, 404},
		"a name of no string": {"?id=" + ada.org, `{"name":["x"]}`, "invalid_request name:invalid_type", ada.auth, 400},
	} {
		w.do("PUT", "/api/organizations"+c.query, c.body, c.who).want(t, name, c.status, c.problems)
	}
}

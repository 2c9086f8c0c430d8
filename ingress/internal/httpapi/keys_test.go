package httpapi

import (
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/id"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea, cleo := w.signUp("ada@example.com"), w.signUp("bea@example.com"), w.signUp("cleo@example.com")
	w.join(bea, ada.org, domain.RoleMember)
	at := "X-Organization-Id: " + ada.org
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	a := w.do("POST", "/api/keys", `{"name":"deploy","scope":"organization","expiresAt":"`+later+`"}`, ada.auth).want(t, "making", 201, "")
	key, keyID := a.text(t, "key"), a.text(t, "id")
	if !strings.HasPrefix(key, "ak_"+id.Suffix(keyID)+"_") || a.text(t, "prefix") != "ak_"+id.Suffix(keyID) ||
		a.text(t, "lastFour") != key[len(key)-4:] || a.text(t, "scope") != "organization" || a.text(t, "name") != "deploy" ||
		a.text(t, "expiresAt") != later[:19]+".000Z" || a.json(t, "lastUsedAt") != nil || a.text(t, "createdAt") == "" {
		t.Errorf("new key %s", a.body)
	}
	orgKey, _ := w.key(ada, domain.KeyScopeOrganization)
	for name, c := range map[string]struct {
		body, who, problems string
		status              int
	}{
		"nothing":            {`{}`, ada.auth, "invalid_request name:required scope:required", 400},
		"wrong":              {`{"name":"","scope":"all","expiresAt":"soon"}`, ada.auth, "invalid_request name:too_short scope:invalid_value expiresAt:invalid_value", 400},
		"expired":            {`{"name":"x","scope":"user","expiresAt":"2020-01-01T00:00:00Z"}`, ada.auth, "invalid_request expiresAt:invalid_value", 400},
		"number":             {`{"name":"x","scope":"user","expiresAt":5}`, ada.auth, "invalid_request expiresAt:invalid_type", 400},
		"for ever":           {`{"name":"x","scope":"user","expiresAt":null}`, ada.auth, "", 201},
		"own secret":         {`{"name":"x","scope":"user","key":"ak_x"}`, ada.auth, "invalid_request key:unknown_field", 400},
		"key makes key":      {`{"name":"x","scope":"organization"}`, orgKey, "", 201},
		"key of nobody":      {`{"name":"x","scope":"user"}`, orgKey, "permission_denied", 403},
		"nobody":             {`{"name":"x","scope":"user"}`, "X-Other: 1", "unauthenticated", 401},
		"demo":               {`{"name":"x","scope":"user"}`, "X-Tenant-Id: tenant_demo", "demo_restricted", 403},
		"long name":          {`{"name":"` + strings.Repeat("x", 121) + `","scope":"user"}`, ada.auth, "invalid_request name:too_long", 400},
		"scope of no string": {`{"name":"x","scope":["user"]}`, ada.auth, "invalid_request scope:invalid_type", 400},
	} {
		w.do("POST", "/api/keys", c.body, c.who).want(t, name, c.status, c.problems)
	}
	w.do("POST", "/api/keys", `{"name":"x","scope":"organization"}`, bea.auth, at).want(t, "member makes organization's key", 403, "permission_denied")
	mine := w.do("POST", "/api/keys", `{"name":"bea's","scope":"user"}`, bea.auth, at).want(t, "member makes own key", 201, "")

	list := func(who ...string) string {
		return string(w.do("GET", "/api/keys?limit=100", "", who...).want(t, "listing", 200, "").body)
	}
	if all := list(ada.auth); !strings.Contains(all, keyID) || strings.Contains(all, mine.text(t, "id")) || strings.Contains(all, `"key":`) || strings.Contains(all, key) {
		t.Errorf("owner sees %s", all)
	}
	if all := list(bea.auth, at); strings.Contains(all, keyID) || !strings.Contains(all, mine.text(t, "id")) {
		t.Errorf("member sees %s", all)
	}

	for name, c := range map[string]struct {
		query    string
		who      []string
		problems string
		status   int
	}{
		"no id":                       {"", []string{ada.auth}, "invalid_request id:required", 400},
		"two ids":                     {"?id=" + keyID + "&id=" + keyID, []string{ada.auth}, "invalid_request id:duplicate", 400},
		"malformed id":                {"?id=key_x", []string{ada.auth}, "not_found", 404},
		"another kind of id":          {"?id=" + ada.org, []string{ada.auth}, "not_found", 404},
		"unknown id":                  {"?id=" + id.New(id.Key), []string{ada.auth}, "not_found", 404},
		"foreign key":                 {"?id=" + keyID, []string{cleo.auth}, "not_found", 404},
		"colleague's key":             {"?id=" + mine.text(t, "id"), []string{ada.auth}, "not_found", 404},
		"member, organization's key":  {"?id=" + keyID, []string{bea.auth, at}, "permission_denied", 403},
		"member, own key":             {"?id=" + mine.text(t, "id"), []string{bea.auth, at}, "", 200},
		"member, own key, once more":  {"?id=" + mine.text(t, "id"), []string{bea.auth, at}, "not_found", 404},
		"a made-up action is ignored": {"?id=" + id.New(id.Key) + "&action=x", []string{ada.auth}, "not_found", 404},
	} {
		if name != "member, own key, once more" {
			w.do("DELETE", "/api/keys"+c.query, "", c.who...).want(t, name, c.status, c.problems)
		}
	}
	w.do("DELETE", "/api/keys?id="+mine.text(t, "id"), "", bea.auth, at).want(t, "revoking twice", 404, "not_found")
	w.do("GET", "/api/auth/session", "", "X-Api-Key: "+key).want(t, "before revocation", 200, "")
	a = w.do("DELETE", "/api/keys?id="+keyID, "", ada.auth).want(t, "revoking", 200, "")
	if string(a.body) != `{"id":"`+keyID+`","deleted":true}` {
		t.Errorf("answer %s", a.body)
	}
	w.do("GET", "/api/auth/session", "", "X-Api-Key: "+key).want(t, "after revocation", 401, "unauthenticated")
}

func TestLists(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	for range 5 {
		w.key(ada, domain.KeyScopeUser)
	}
	var seen []string
	for target, pages := "/api/keys?limit=2", 0; target != ""; pages++ {
		a := w.do("GET", target, "", ada.auth).want(t, "page", 200, "")
		for _, n := range []string{"0", "1"} {
			if keyID := a.text(t, "data."+n+".id"); keyID != "" {
				seen = append(seen, keyID)
			}
		}
		target = ""
		cursor, more := a.json(t, "nextCursor"), a.json(t, "hasMore")
		if more != (cursor != nil) || pages > 3 {
			t.Fatalf("page %s", a.body)
		}
		if cursor != nil {
			target = "/api/keys?limit=2&cursor=" + cursor.(string)
		}
	}
	if len(seen) != 5 {
		t.Errorf("pages show %v", seen)
	}
	for i := range seen[1:] {
		if seen[i] <= seen[i+1] {
			t.Errorf("not newest first: %v", seen)
		}
	}
	empty := w.signUp("bea@example.com")
	if a := w.do("GET", "/api/keys", "", empty.auth); string(a.body) != `{"data":[],"hasMore":false,"nextCursor":null}` {
		t.Errorf("empty list %s", a.body)
	}
	for query, problems := range map[string]string{
		"limit=0": "limit:invalid_value", "limit=101": "limit:invalid_value", "limit=": "limit:invalid_value", "limit=+1": "limit:invalid_value",
		"limit=ten": "limit:invalid_value", "limit=1.5": "limit:invalid_value", "limit=1&limit=2": "limit:duplicate", "limit=007": "limit:invalid_value",
		"cursor=": "cursor:invalid_value", "cursor=x": "cursor:invalid_value", "cursor=a&cursor=b": "cursor:duplicate",
		"cursor=YWdfMDFoNDU1dmI0cGV4NXZza25rMDg0c24wMnE": "cursor:invalid_value", // the cursor of a list of agents
		"limit=0&cursor=x":       "limit:invalid_value cursor:invalid_value",
		"limit=%zz":              "query:invalid_value",
		"x=%00":                  "x:invalid_value",
		"x=%ff":                  "x:invalid_value",
		"limit=1;cursor=x":       "query:invalid_value",
		"limit=9999999999999999": "limit:invalid_value",
	} {
		w.do("GET", "/api/keys?"+query, "", ada.auth).want(t, query, 400, "invalid_request "+problems)
	}
}

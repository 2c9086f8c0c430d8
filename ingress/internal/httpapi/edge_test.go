package httpapi

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openapi"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
)

// edgeRow is a row of the access table, with its route and a caller who may use the route.
type edgeRow struct {
	accessRow
	*matrix
	route  httpx.Route
	caller credential
}

// edgeRows returns the rows of the access table, except those whose routes accept unknown query
// parameters or need a page of a website.
func edgeRows(t *testing.T) []edgeRow {
	t.Helper()
	m := newMatrix(t, newRunEnv(t))
	routes := map[string]httpx.Route{}
	for _, r := range tableFor(t).routes() {
		routes[r.Method+" "+r.Path+" "+r.Action] = r
	}
	var rows []edgeRow
	for _, r := range accessTable {
		values, err := url.ParseQuery(r.query)
		must(t, err)
		at := r.method + " " + r.path + " "
		known, found := routes[at+values.Get("action")]
		if !found {
			known, found = routes[at+"*"]
		}
		if !found || known.Open || r.who == forPage || r.path == "/api/auth/oidc" {
			continue
		}
		caller := login("owner", m.home.owner, m.home, domain.RoleOwner, m.home.owner.auth)
		if r.who == forSystem || r.who == forKey {
			caller = orgKey("organization's key", m.home, m.home.key)
		}
		rows = append(rows, edgeRow{r, m, known, caller})
	}
	return rows
}

// send sends the row's request. The argument thing replaces the placeholder of the row's id. The
// argument more contains additional query parameters. If the argument body is not empty, it
// replaces the row's body.
func (r *edgeRow) send(thing, more, body string, with ...string) answer {
	fill := func(s string) string {
		s = strings.NewReplacer("$word", "home", "$okey", r.home.keyID, "$fresh", r.fresh(), "$email", r.caller.who.email).Replace(s)
		return placeholder.ReplaceAllLiteralString(s, thing)
	}
	query := strings.Trim(fill(r.query)+"&"+more, "&")
	if body == "" {
		body = fill(r.body)
	}
	headers := append([]string{"Prefer: respond-async"}, with...)
	if r.who != forAnyone && r.who != forLink {
		headers = append(headers, r.caller.headers...)
	}
	return r.from(r.method, r.path+"?"+query, body, headers...)
}

func (r *edgeRow) own() string {
	name := r.kind()
	if name == "" {
		return ""
	}
	return idKinds[name].own(r.orgPair, &r.caller)
}

// byMember returns a copy of the row with a caller whose role is member.
func (r *edgeRow) byMember() *edgeRow {
	member := *r
	member.caller = login("member", r.home.member, r.home, domain.RoleMember, r.home.member.auth, r.home.header)
	return &member
}

func (r *edgeRow) name() string { return r.method + " " + r.path + "?" + r.query + " " + r.body }

// Every route rejects unknown, repeated and empty parameters. The error names them.
func TestEveryQueryIsStrict(t *testing.T) {
	t.Parallel()
	n := 0
	for _, r := range edgeRows(t) {
		own := r.own()
		refused := func(more, problem string) {
			t.Helper()
			n++
			got := r.send(own, more, "")
			if got.status != 400 || !strings.Contains(got.problems(t)+" ", " "+problem) {
				t.Errorf("%s with %s: %d %s, want 400 with %s", r.name(), more, got.status, got.problems(t), problem)
			}
		}
		refused("zzUnknown=1", "zzUnknown:unknown_field ")
		refused("ID=x", "ID:unknown_field ")
		values, err := url.ParseQuery(r.query)
		must(t, err)
		_, named := values["id"]
		known := slices.Concat(r.route.Among(named && r.route.Find != nil), httpx.Params(slices.Sorted(maps.Keys(values))))
		for _, name := range known {
			if name == "action" {
				continue // another action selects another route
			}
			if !slices.Contains(httpx.Repeatable, name) {
				refused(name+"=a&"+name+"=b", name+":duplicate ")
			}
			if _, given := values[name]; !given {
				refused(name+"=", name+":invalid_value ")
			}
		}
		for _, name := range r.route.Among(!named) {
			if r.route.Find != nil && !slices.Contains(known, name) {
				want := name + ":conflict "
				if !named {
					want = "id:required "
				}
				refused(name+"=1", want)
			}
		}
	}
	t.Logf("%d queries", n)
}

// Every route with a method other than GET rejects unknown fields in the body. A route that takes
// no body accepts an empty object or an empty body.
func TestEveryBodyIsStrict(t *testing.T) {
	t.Parallel()
	taken, n := 0, 0
	for _, r := range edgeRows(t) {
		if r.method == http.MethodGet || r.raw() {
			continue
		}
		got := r.send(r.own(), "", `{"zzUnknown":1}`)
		if got.status != 400 || !got.blames(t, "zzUnknown:unknown_field") {
			t.Errorf("%s with an unknown field: %d %s", r.name(), got.status, got.body)
		}
		if r.body != "" {
			taken++
			continue
		}
		n++
		if !r.route.RefusesFields() {
			t.Errorf("%s has no body in the access table, and takes one", r.name())
		}
		r.send(r.own(), "", "text", "Content-Type: text/plain").want(t, r.name()+" with a text", 415, "unsupported_media_type")
		r.send(r.own(), "", `[]`).want(t, r.name()+" with a list", 400, "invalid_request body:invalid_type")
		r.send(r.own(), "", `{"pad":"`+strings.Repeat("x", httpx.MaxBody)+`"}`).want(t, r.name()+" with a large body", 413, "payload_too_large")
		if r.who == forSession { // logging out would end the session
			login := `{"email":"` + r.caller.who.email + `","password":"` + password + `"}`
			r.caller.headers = []string{"Authorization: Bearer " + r.ok("POST", "/api/auth/login", login).text(t, "token")}
		}
		if got := r.send(r.own(), "", `{}`); got.status != r.status {
			t.Errorf("%s with an empty object: %d %s", r.name(), got.status, got.body)
		}
	}
	t.Logf("%d rows with a body, %d without", taken, n)
}

// A request with If-Match for a resource that has no versions is rejected. If the resource does not
// exist, the error is not_found.
func TestOnlyAgentsHaveVersions(t *testing.T) {
	t.Parallel()
	n := 0
	for _, r := range edgeRows(t) {
		if r.method != http.MethodPut && r.method != http.MethodDelete || r.route.Match {
			continue
		}
		n++
		r.send(r.own(), "", "", `If-Match: "1"`).want(t, r.name(), 412, "precondition_failed")
		r.send(r.own(), "", "", "If-Match: 1").want(t, r.name()+" with a malformed tag", 400, "invalid_request If-Match:invalid_value")
		if strings.Contains(r.query, "id=$") && r.route.Find != nil {
			r.send(unknownID(idKinds[r.kind()].prefix), "", "", `If-Match: "1"`).want(t, r.name()+" of a missing thing", 404, "not_found")
		}
	}
	t.Logf("%d rows", n)
}

// An empty body of unknown length is treated like a missing body.
func TestAnEmptyChunkedBodyIsAccepted(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	endpointID := w.do("POST", "/api/notifications", newEndpoint, ada.auth).want(t, "endpoint", 201, "").text(t, "id")
	for body, want := range map[string]int{"": 202, "{}": 202, `{"zz":1}`: 400} {
		unknownLength := io.MultiReader(strings.NewReader(body))
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/notifications?action=test&id="+endpointID, unknownLength)
		req.Header.Set("Authorization", "Bearer "+ada.token)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if got := w.send(req); got.status != want {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
	}
}

// All routes check requests in the same order: the credential, the permission, the query's id, and
// last the parameters and the body.
func TestChecksComeInOneOrder(t *testing.T) {
	t.Parallel()
	for _, r := range edgeRows(t) {
		inQuery := strings.Contains(r.query, "id=$") && r.route.Find != nil
		for _, bad := range [][2]string{{"zzUnknown=1", ""}, {"", `{"zzUnknown":`}, {"zzUnknown=1", `{"zzUnknown":`}} {
			if r.body == "" && bad[1] != "" {
				continue
			}
			if inQuery {
				for _, thing := range []string{unknownID(idKinds[r.kind()].prefix), "malformed", "%00"} {
					got := r.send(thing, bad[0], bad[1])
					if got.status != 404 || got.problems(t) != "not_found" {
						t.Errorf("%s of %q with %v: %d %s, want 404", r.name(), thing, bad, got.status, got.body)
					}
				}
			}
			if r.who == forAnyone || r.who == forLink || r.who == forPublic || r.who == forDemo {
				continue
			}
			anonymous := r
			anonymous.caller = credential{headers: []string{"X-Unknown: x"}}
			if got := anonymous.send("x", bad[0], bad[1]); got.status != 401 {
				t.Errorf("%s by anonymous with %v: %d %s", r.name(), bad, got.status, got.body)
			}
			// The permission to create a key depends on the scope in the request body.
			if domain.Role(r.role).AtLeast(domain.RoleAdmin) && r.path != "/api/keys" {
				thing := "x"
				if r.late {
					thing = r.own()
				}
				if got := r.byMember().send(thing, bad[0], bad[1]); got.status != 403 {
					t.Errorf("%s by a member with %v: %d %s", r.name(), bad, got.status, got.body)
				}
			}
		}
	}
}

// Permissions that depend on the resource are checked before parameters and body.
func TestResourcePermissionsAreCheckedFirst(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea, cyd := w.signUp("ada@example.com"), w.signUp("bea@example.com"), w.signUp("cyd@example.com")
	w.join(bea, ada.org, domain.RoleMember)
	w.join(cyd, ada.org, domain.RoleAdmin)
	keyID := w.do("POST", "/api/keys", `{"name":"k","scope":"organization"}`, ada.auth).want(t, "key", 201, "").text(t, "id")
	for request, who := range map[string]person{
		"DELETE /api/keys?id=" + keyID:                              bea,
		"POST /api/keys?action=rotate&id=" + keyID:                  bea,
		"DELETE /api/organizations/members?id=" + ada.id:            bea,
		"POST /api/organizations/members?action=reset&id=" + ada.id: cyd,
		"PUT /api/organizations?id=" + ada.org:                      cyd,
	} {
		method, path, _ := strings.Cut(request, " ")
		for query, body := range map[string]string{"": `{"zz":1}`, "&zz=1": "", "&zz=2": `{"zz":1}`} {
			w.do(method, path+query, body, who.auth, "X-Organization-Id: "+ada.org).want(t, request+query+" "+body, 403, "permission_denied")
		}
	}
}

// Permissions are checked before the rate limit. Parameters and bodies are checked after it.
func TestLimitComesAfterPermission(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, ratelimit.Settings{Demo: 1, User: 2, System: 3})
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	w.join(bea, ada.org, domain.RoleMember)
	in := "X-Organization-Id: " + ada.org
	for range 2 {
		w.do("GET", "/api/agents", "", bea.auth, in).want(t, "within the limit", 200, "")
	}
	w.do("GET", "/api/hooks?zz=1", "", bea.auth, in).want(t, "no permission", 403, "permission_denied")
	w.do("GET", "/api/agents?id=x&zz=1", "", bea.auth, in).want(t, "no request left", 429, "rate_limited")
	w.do("POST", "/api/agents?action=chat&id=x", `{"zz":1}`, bea.auth, in).want(t, "no chat left", 429, "rate_limited")
	w.do("GET", "/api/agents?id=x&zz=1", "", "X-Unknown: x").want(t, "nobody", 401, "unauthenticated")
}

// The response to HEAD has the same status and headers as the response to GET, but no body.
func TestHeadAnswersAsGet(t *testing.T) {
	t.Parallel()
	n := 0
	for _, r := range edgeRows(t) {
		if r.method != http.MethodGet || r.route.Stream {
			continue
		}
		own := r.own()
		for _, more := range []string{"", "zzUnknown=1"} {
			n++
			get := r.send(own, more, "")
			r.method = http.MethodHead
			head := r.send(own, more, "")
			r.method = http.MethodGet
			if strings.Contains(r.query, "stream=1") || strings.Contains(r.query, "format=") {
				continue
			}
			if head.status != get.status || len(head.body) > 0 {
				t.Errorf("HEAD of %s: %d, GET %d", r.name(), head.status, get.status)
			}
			for _, name := range []string{"Content-Type", "Etag", "Cache-Control", httpx.HeaderPolicy} {
				if head.header.Get(name) != get.header.Get(name) {
					t.Errorf("HEAD of %s has %s %q, GET %q", r.name(), name, head.header.Get(name), get.header.Get(name))
				}
			}
		}
	}
	t.Logf("%d answers", n)
}

// The OpenAPI document lists exactly the parameters that each route accepts.
func TestParametersAreDocumented(t *testing.T) {
	t.Parallel()
	served := map[string]map[string]bool{}
	for _, r := range tableFor(t).routes() {
		if r.Open {
			continue
		}
		at := r.Method + " " + r.Path
		if served[at] == nil {
			served[at] = map[string]bool{}
		}
		for _, name := range slices.Concat(r.List, r.Beside) {
			served[at][name] = true
		}
		if r.Find != nil {
			served[at]["id"] = true
		}
		if r.Action != "" {
			served[at]["action"] = true
		}
	}
	for _, group := range openapi.Read().Groups {
		for _, o := range group.Operations {
			known, ours := served[o.Method+" "+o.Path]
			if !ours {
				continue
			}
			documented := map[string]bool{}
			for _, f := range o.Parameters {
				if f.In == "query" {
					documented[f.Name] = true
				}
			}
			if !maps.Equal(known, documented) {
				t.Errorf("%s %s takes %v, the document says %v", o.Method, o.Path, slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(documented)))
			}
		}
	}
}

// A PUT accepts a body that GET has returned and leaves missing fields unchanged. If a read-only
// field was changed, the error names it.
func TestEveryPutTakesBackWhatWasRead(t *testing.T) {
	t.Parallel()
	writable := map[string][]string{
		"/api/agents": {
			"name", "description", "systemPrompt", "model", "fallbackModels", "tools", "allowedCallers", "widget", "appendSources", "suggestions", "version",
			"outputSchema", "temperature", "topP", "maxOutputTokens", "reasoningEffort", "seed", "stop", "parallelToolCalls", "overridable",
		},
		"/api/organizations": {"name"},
		"/api/budgets":       {"limit"},
		"/api/hooks":         {"name", "agentId", "keyId", "signatureHeader", "deliveryIdHeader", "messageTemplate", "filter", "coalesce", "enabled", "secret", "outputSchema"},
		"/api/notifications": {"url", "description", "events", "agentId", "enabled", "secret"},
		"/api/knowledge":     {"name", "metadata", "url", "mimeType"},
	}
	const number, text, null = `7`, `"2026-01-01T00:00:00.000Z"`, `null`
	moving := map[string]map[string]string{ // fields that the service may change between the GET and the PUT
		"/api/agents":        {"lastCheck": `{"version":1,"checkedAt":"2026-01-01T00:00:00.000Z","ok":true,"checks":[]}`},
		"/api/budgets":       {"used": number, "reserved": number, "resetsAt": text},
		"/api/hooks":         {"lastDeliveryAt": text, "lastRejectedAt": text, "previousSecretUntil": text},
		"/api/notifications": {"failures": number, "lastSuccessAt": text, "disabledAt": text, "disabledReason": text, "previousSecretUntil": text},
		"/api/knowledge": {
			"bytes": number, "sha256": null, "status": `"queued"`, "error": `{"code":"unreadable","message":"It cannot be read."}`, "pages": null,
			"pagesDone": number, "chunks": number, "language": `"de"`, "notes": `["Page 7 is empty."]`, "updatedAt": text,
		},
	}
	seen := map[string]bool{}
	for _, r := range edgeRows(t) {
		if r.method != http.MethodPut || seen[r.path] {
			continue
		}
		seen[r.path] = true
		target := r.path + "?id=" + r.own()
		before := r.ok("GET", target, "", r.caller.headers...)
		var fields map[string]json.RawMessage
		must(t, json.Unmarshal(before.body, &fields))
		for name := range fields {
			if slices.Contains(writable[r.path], name) {
				continue
			}
			if older, moves := moving[r.path][name]; moves {
				r.ok("PUT", target, `{"`+name+`":`+older+`}`, r.caller.headers...)
				r.from("PUT", target, `{"`+name+`":true}`, r.caller.headers...).
					want(t, "PUT "+r.path+" with "+name+" of another type", 400, "invalid_request "+name+":invalid_type")
				continue
			}
			got := r.from("PUT", target, `{"`+name+`":"other"}`, r.caller.headers...)
			got.want(t, "PUT "+r.path+" with another "+name, 400, "invalid_request "+name+":invalid_value")
		}
		r.ok("PUT", target, `{}`, r.caller.headers...)
		var again map[string]json.RawMessage
		must(t, json.Unmarshal(r.ok("GET", target, "", r.caller.headers...).body, &again))
		for name, value := range fields {
			if string(again[name]) != string(value) && name != "updatedAt" && name != "version" {
				t.Errorf("PUT %s with {} changed %s from %s to %s", r.path, name, value, again[name])
			}
		}
		whole := r.ok("GET", target, "", r.caller.headers...)
		r.ok("PUT", target, string(whole.body), r.caller.headers...)
	}
	if len(seen) != len(writable) {
		t.Errorf("PUT of %v", slices.Sorted(maps.Keys(seen)))
	}
}

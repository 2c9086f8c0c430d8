package httpapi

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/id"
)

var (
	requestIDs = regexp.MustCompile(`"requestId":"[^"]*"`)
	missingIDs = regexp.MustCompile(` not found: ((?:[^"\\]|\\.)*)"`)
)

// shown returns everything that a response reveals, except for the request id, the rate limit
// headers, and the id in the error for a missing resource. The method check of matrix compares this
// id with the id in the request.
func (a answer) shown() string {
	header := a.header.Clone()
	for _, name := range []string{headerRequestID, httpx.HeaderPolicy, httpx.HeaderLimit} {
		header.Del(name)
	}
	if a.status == http.StatusNotFound {
		header.Del("Content-Length") // depends on the length of the id
	}
	var lines strings.Builder
	_ = header.Write(&lines) // writing to a buffer cannot fail
	body := missingIDs.ReplaceAllString(string(a.body), ` not found"`)
	return strconv.Itoa(a.status) + "\n" + lines.String() + requestIDs.ReplaceAllString(body, `"requestId":"…"`)
}

// missingID returns the id in the error for a missing resource, or "" if the error has none.
func (a answer) missingID(tb testing.TB) string {
	tb.Helper()
	found := missingIDs.FindSubmatch(a.body)
	if found == nil {
		return ""
	}
	named, err := strconv.Unquote(`"` + string(found[1]) + `"`)
	must(tb, err)
	return named
}

// The error for a missing resource names its kind and, if the request names a printable id of
// limited length, this id.
func TestMissingResourcesAreNamed(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID, runID := id.New(id.Agent), id.New(id.Run)
	const message = `{"sessionId":"s","message":"m"}`
	bodies := map[string]string{
		"/api/agents?action=chat&id=" + agentID: message, "/api/agents?action=chat&template=tpl_1": message,
		"/api/hooks/receive/hook_1": `{}`, "/api/auth/accept": `{"token":"pi_1","password":"` + password + `"}`,
	}
	for target, want := range map[string]string{
		"/api/agents?id=" + agentID:                                  "agent not found: " + agentID,
		"/api/agents?id=ag_1":                                        "agent not found: ag_1",
		"/api/runs?id=" + runID:                                      "run not found: " + runID,
		"/api/runs?id=" + agentID:                                    "run not found: " + agentID,
		"/api/knowledge?page=1&id=doc_1":                             "document not found: doc_1",
		"/api/keys?id=key_1":                                         "API key not found: key_1",
		"/api/organizations/members?id=usr_1":                        "member or invitation not found: usr_1",
		"/api/hooks/deliveries?id=" + url.QueryEscape(`two "words"`): `delivery not found: two "words"`,
		"/api/sessions?agentId=" + agentID + "&id=s":                 "session not found: s",
		"/api/sessions?id=" + strings.Repeat("x", 201):               "session not found",
		"/api/sessions?id=" + url.QueryEscape("a\x1b[2Jb"):           "session not found",
		"/api/sessions?id=%ff":                                       "session not found",
		"/api/agents/templates/none":                                 "no such path; /openapi.json lists the paths of the API",
		"/v1/responses/resp_1":                                       "response not found: resp_1",
		"/v1/containers/cntr_1/files/file_1/content":                 "file not found: file_1",
		"/v1/models/" + agentID:                                      "unknown model: use the id of an agent or a template",
		"/assets/none.js":                                            "file not found",
		"/api/auth/oidc":                                             "login with an OpenID Connect provider is not configured",
		"POST /api/agents?action=chat&id=" + agentID:                 "agent not found: " + agentID,
		"POST /api/agents?action=chat&template=tpl_1":                "template not found: tpl_1",
		"POST /api/hooks/receive/hook_1":                             "hook not found: hook_1",
		"POST /api/auth/accept":                                      "invitation not found",
		"DELETE /api/notifications?id=" + agentID:                    "notification endpoint not found: " + agentID,
	} {
		method, path, found := strings.Cut(target, " ")
		if !found {
			method, path = "GET", target
		}
		got := a.from(method, path, bodies[path], bearer(h.key)).want(t, target, 404, "not_found")
		field := "detail"
		if strings.HasPrefix(path, "/v1/") {
			field = "error.message"
		}
		if got.text(t, field) != want {
			t.Errorf("%s: %s, want %q", target, got.body, want)
		}
	}
}

// For each route that looks up a resource, the service knows the kind of the resource, which errors
// name.
func TestResourcesHaveKinds(t *testing.T) {
	t.Parallel()
	for _, r := range newTestEnv(t, manyRequests).api.routes() {
		if r.Find != nil && httpx.Resources[r.Path] == "" {
			t.Errorf("the errors of %s %s do not name the kind of the resource", r.Method, r.Path)
		}
	}
}

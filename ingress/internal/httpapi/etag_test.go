package httpapi

import (
	"testing"
)

// An agent's version is its entity tag.
func TestAgentsHaveVersions(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	target := "/api/agents?id=" + a.newAgent(h)
	if tag := a.ok("GET", target, "", h.key).header.Get("ETag"); tag != `"1"` {
		t.Errorf("ETag %s", tag)
	}
	for _, c := range []struct {
		method, header, body string
		status               int
	}{
		{"GET", `If-None-Match: "1"`, "", 304},
		{"HEAD", `If-None-Match: W/"1"`, "", 304},
		{"GET", `If-None-Match: "0", "1"`, "", 304},
		{"GET", "If-None-Match: *", "", 304},
		{"GET", `If-None-Match: "2"`, "", 200},
		{"GET", "If-None-Match: 1", "", 200},
		{"GET", `If-Match: "1"`, "", 200},
		{"GET", `If-Match: "2"`, "", 412},
		{"PUT", `If-Match: "2"`, `{"name":"n"}`, 412},
		{"PUT", `If-Match: W/"1"`, `{"name":"n"}`, 412},
		{"PUT", `If-None-Match: *`, `{"name":"n"}`, 412},
		{"PUT", "If-Match: 1", `{"name":"n"}`, 400},
		{"PUT", "If-Match: ", `{"name":"n"}`, 400},
		{"DELETE", `If-Match: "2"`, "", 412},
		{"PUT", `If-Match: "7", "1"`, `{"name":"n"}`, 200},
		{"PUT", `If-Match: *`, `{"name":"m","version":2}`, 200},
		{"PUT", `If-Match: "3"`, `{"name":"o","version":2}`, 409},
		{"DELETE", `If-Match: "3"`, "", 200},
		{"PUT", `If-Match: *`, `{"name":"n"}`, 404},
	} {
		got := a.from(c.method, target, c.body, h.key, c.header)
		if got.status != c.status || c.status == 412 && got.problems(t) != "precondition_failed" {
			t.Errorf("%s with %s: %d %s, want %d", c.method, c.header, got.status, got.body, c.status)
		}
		if c.status == 304 && (len(got.body) > 0 || got.header.Get("ETag") != `"1"`) {
			t.Errorf("%s with %s: %v %s", c.method, c.header, got.header, got.body)
		}
	}
}

package httpapi

import (
	"testing"
)

// The entity tag of an agent that was never checked consists of its version.
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

// A check changes an agent's entity tag, so that clients that poll the agent notice the check. The
// check does not change the agent's version, so a tag from before the check still permits changes.
func TestChecksChangeTheEntityTag(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	target := "/api/agents?id=" + a.newAgent(h)
	check := func() {
		a.ok("POST", target+"&action=check", "", h.key)
	}
	read := func(tag string) answer { return a.from("GET", target, "", h.key, "If-None-Match: "+tag) }

	before := a.ok("GET", target, "", h.key).header.Get("ETag")
	check()
	first := read(before)
	if first.status != 200 || string(first.raw(t, "lastCheck")) == "null" || first.json(t, "version") != 1.0 {
		t.Fatalf("after a check, with the tag %s: %d %s", before, first.status, first.body)
	}
	tag := first.header.Get("ETag")
	if got := read("W/" + tag); got.status != 304 || got.header.Get("ETag") != tag {
		t.Errorf("with the tag %s: %d %v", tag, got.status, got.header)
	}
	check()
	if got := read(tag); got.status != 200 || got.header.Get("ETag") == tag {
		t.Errorf("after another check, with the tag %s: %d %v", tag, got.status, got.header)
	}

	a.from("PUT", target, `{"name":"a"}`, h.key, "If-None-Match: "+tag).want(t, "If-None-Match", 412, "precondition_failed")
	a.from("PUT", target, `{"name":"a"}`, h.key, "If-Match: W/"+tag).want(t, "a weak tag", 412, "precondition_failed")
	a.from("PUT", target, `{"name":"a"}`, h.key, "If-Match: "+before).want(t, "the tag from before the check", 200, "")
	a.from("PUT", target, `{"name":"b"}`, h.key, "If-Match: "+tag).want(t, "the tag of an old version", 412, "precondition_failed")
	a.from("DELETE", target, "", h.key, `If-Match: "2"`).want(t, "the version alone", 200, "")
}

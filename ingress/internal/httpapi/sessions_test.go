package httpapi

import (
	"net/url"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
)

func TestSessionsQueries(t *testing.T) {
	t.Parallel()
	w := newRunEnv(t)
	ada := w.signUp("ada@example.com")
	agentID := id.New(id.Agent)
	named := "&agentId=" + agentID
	long := strings.Repeat("x", 129)
	for query, problems := range map[string]string{
		"?limit=0":                             "limit:invalid_value",
		"?limit=101&limit=1":                   "limit:duplicate",
		"?cursor=":                             "cursor:invalid_value",
		"?cursor=MQ":                           "cursor:invalid_value",
		"?agentId=" + agentID:                  "id:required",
		"?templateId=tpl_support":              "id:required",
		"?principal=a&principal=b":             "principal:duplicate",
		"?id=s&templateId=tpl_support" + named: "agentId:invalid_value",
		"?id=s&id=t" + named:                   "id:duplicate",
		"?id=" + named:                         "id:invalid_value",
		"?id=s&agentId=":                       "agentId:invalid_value",
		"?id=s&principal=" + named:             "principal:invalid_value",
	} {
		w.do("GET", "/api/sessions"+query, "", ada.auth).want(t, query, 400, "invalid_request "+problems)
	}
	for query, problems := range map[string]string{"": "id:required", "?" + named[1:]: "id:required"} {
		w.do("DELETE", "/api/sessions"+query, "", ada.auth).want(t, "DELETE "+query, 400, "invalid_request "+problems)
	}
	var first string
	for _, query := range []string{
		"?id=none", "?id=" + long, "?id=%ff", "?id=%00", "?id=none&principal=usr_1", "?id=auto_" + strings.Repeat("0", 26),
		"?id=" + long + named, "?id=none" + named, "?id=%ff" + named, "?id=s&limit=x&cursor=!" + named, "?id=s&agentId=ag_1", "?id=s&agentId=tpl_support",
		"?id=s&templateId=" + agentID, "?id=s&templateId=tpl_none", "?id=s&principal=usr_1" + named,
		"?id=none&principal=%ff", "?id=none&principal=%00", "?id=s&principal=%ff" + named, "?id=s&principal=%00" + named,
	} {
		for _, method := range []string{"GET", "DELETE"} {
			a := w.do(method, "/api/sessions"+query, "", ada.auth).want(t, method+" "+query, 404, "not_found")
			if first == "" {
				first = a.shown()
			}
			if a.shown() != first {
				t.Errorf("%s %s: %s differs from %s", method, query, a.body, first)
			}
		}
	}
}

// The id of a session suffices if it is unique among the caller's own sessions. If none of them has
// this id, the id must be unique among the other sessions that the caller may read.
func TestSessionsAreReadByIDAlone(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, other := a.newTestOrg("red"), a.newTestOrg("blue")
	first, second, foreign := a.newAgent(h), a.newAgent(h), a.newAgent(other)
	owner, member := []string{h.owner.auth, h.header}, []string{h.member.auth, h.header}
	for session, with := range map[string]string{"once": first, "twice": first, "both": first} {
		a.newChat(h, with, session, owner...)
	}
	a.newChat(h, second, "twice", owner...)
	a.newChat(h, first, "both", member...)
	a.newChat(h, second, "member's", member...)
	a.newChat(other, foreign, "blue", other.owner.auth, other.header)
	automation := a.ok("POST", "/api/internal/run-automation", `{"target":"`+second+`","input":{"message":"m"}}`, h.key, "Prefer: respond-async").
		text(t, "sessionId")
	read := func(query, agentID, principal string, headers ...string) {
		t.Helper()
		got := a.ok("GET", "/api/sessions?id="+query, "", headers...)
		if got.text(t, "agentId") != agentID || got.text(t, "principal") != principal || got.json(t, "messages.0") == nil {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	read("once", first, h.owner.id, owner...)
	read("once&agentId="+first, first, h.owner.id, owner...)
	read("twice&agentId="+second, second, h.owner.id, owner...)
	read("both", first, h.owner.id, owner...)
	read("both", first, h.member.id, member...)
	read("both&principal="+h.member.id, first, h.member.id, owner...)
	read("member%27s", second, h.member.id, owner...)
	read(automation, second, "system", owner...)
	refused := func(method, query string, status int, problems string, headers ...string) {
		t.Helper()
		a.from(method, "/api/sessions?id="+query, "", headers...).want(t, method+" "+query, status, problems)
	}
	refused("GET", "twice", 400, "invalid_request agentId:required", owner...)
	refused("GET", "once&agentId="+second, 404, "not_found", owner...)
	refused("GET", "once&templateId=tpl_support", 404, "not_found", owner...)
	refused("GET", "once&principal="+h.member.id, 404, "not_found", owner...)
	refused("GET", "once", 404, "not_found", member...)
	refused("GET", automation, 404, "not_found", member...)
	refused("GET", "blue", 404, "not_found", owner...)
	refused("GET", "once&limit=0", 400, "invalid_request limit:invalid_value", owner...)
	refused("DELETE", "once", 400, "invalid_request agentId:required", owner...)
	refused("DELETE", "blue", 404, "not_found", owner...)
}

func TestSessionsOfMembersAndAdmins(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, other := a.newTestOrg("red"), a.newTestOrg("blue")
	agentID := a.newAgent(h)
	say := func(session, answer string, headers ...string) {
		t.Helper()
		a.finish(answer, a.newChat(h, agentID, session, headers...))
	}
	ownerSays, memberSays := []string{h.owner.auth, h.header}, []string{h.member.auth, h.header}
	say("s", "owner's", ownerSays...)
	say("s", "member's", memberSays...)
	say("mine", "member's alone", memberSays...)
	list := func(query string, headers ...string) (out string) {
		t.Helper()
		got := a.ok("GET", "/api/sessions"+query, "", headers...)
		for _, n := range []string{"0", "1", "2", "3"} {
			if name := got.text(t, "data."+n+".id"); name != "" {
				out += name + "/" + map[string]string{h.owner.id: "owner", h.member.id: "member"}[got.text(t, "data."+n+".principal")] + " "
			}
		}
		return strings.TrimSpace(out)
	}
	admin := []string{h.admin.auth, h.header}
	for _, c := range []struct {
		query   string
		headers []string
		want    string
	}{
		{"", admin, "mine/member s/member s/owner"},
		{"?principal=" + h.owner.id, admin, "s/owner"},
		{"", memberSays, "mine/member s/member"},
		{"?principal=" + h.member.id, memberSays, "mine/member s/member"},
		{"?principal=" + h.owner.id, memberSays, ""},
		{"", []string{h.memberKey, h.header}, ""}, // an organization's key is a separate principal, without sessions here
		{"", []string{other.owner.auth, other.header}, ""},
	} {
		if got := list(c.query, c.headers...); got != c.want {
			t.Errorf("%s of %s lists %q, want %q", c.query, c.headers[0][:20], got, c.want)
		}
	}
	page := a.ok("GET", "/api/sessions?limit=2", "", admin...)
	cursor := page.text(t, "nextCursor")
	if got := list("?limit=2&cursor="+url.QueryEscape(cursor), admin...); got != "s/owner" || page.json(t, "hasMore") != true {
		t.Errorf("second page %q after %s", got, page.body)
	}
	a.from("GET", "/api/sessions?cursor="+url.QueryEscape(cursor), "", other.owner.auth, other.header).
		want(t, "another organization's cursor", 400, "invalid_request cursor:invalid_value")

	at := "/api/sessions?id=s&agentId=" + agentID
	answerFor := func(query string, headers ...string) string {
		t.Helper()
		return a.ok("GET", at+query, "", headers...).text(t, "messages.1.content")
	}
	for _, c := range []struct {
		query   string
		headers []string
		want    string
	}{
		{"", ownerSays, "owner's"},
		{"&principal=" + h.member.id, ownerSays, "member's"},
		{"&principal=" + h.owner.id, admin, "owner's"},
		{"&principal=" + h.member.id, []string{h.key}, "member's"}, // an organization's key acts as an admin
		{"", memberSays, "member's"},
		{"&principal=" + h.member.id, memberSays, "member's"},
	} {
		if got := answerFor(c.query, c.headers...); got != c.want {
			t.Errorf("%q of %s reads %q, want %q", c.query, c.headers[0][:20], got, c.want)
		}
	}
	for _, method := range []string{"GET", "DELETE"} { // a query for a session of another principal must name the principal
		a.from(method, at, "", admin...).want(t, "an admin without one", 404, "not_found")
		a.from(method, at, "", h.key).want(t, "a key without one", 404, "not_found")
	}
	for name, headers := range map[string][]string{
		"a member another's": {h.member.auth, h.header}, "a member's key": {h.memberKey, h.header}, "a foreign admin": {other.admin.auth, other.header},
	} {
		query := "&principal=" + h.owner.id
		for _, method := range []string{"GET", "DELETE"} {
			a.from(method, at+query, "", headers...).want(t, name+" "+method, 404, "not_found")
		}
	}
	if got := a.ok("DELETE", at+"&principal="+h.member.id, "", admin...); string(got.body) != `{"id":"s","deleted":true}` {
		t.Errorf("erasing answered %s", got.body)
	}
	a.from("GET", at, "", memberSays...).want(t, "erased by an admin", 404, "not_found")
	if got := list("", admin...); got != "mine/member s/owner" {
		t.Errorf("left: %q", got)
	}
	a.ok("DELETE", "/api/sessions?id=mine&agentId="+agentID, "", memberSays...)
	a.from("DELETE", "/api/sessions?id=mine&agentId="+agentID, "", memberSays...).want(t, "erased again", 404, "not_found")
	if got := list("", admin...); got != "s/owner" {
		t.Errorf("left: %q", got)
	}
}

func TestCitationsComeWithTheAnswer(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	runID := a.newChat(h, agentID, "s", h.owner.auth, h.header)
	a.finish("x", runID)
	failed := a.newChat(h, agentID, "s", h.owner.auth, h.header)
	a.exec(`UPDATE runs SET answer = 'the moon\u0000', result = '{"citations":[{"id":1,"type":"web","title":"t","url":"https://a.b","citedText":"c",
		"startIndex":0,"endIndex":3,"documentId":null,"page":null}],"toolCalls":[{"output":"\u0000"}]}' WHERE id = $1`, runID)
	a.ok("POST", "/api/runs?action=cancel&id="+failed, "", h.owner.auth, h.header)
	got := a.ok("GET", "/api/sessions?id=s&agentId="+agentID, "", h.owner.auth, h.header)
	for path, want := range map[string]any{
		"messages.1.citations.0.url": "https://a.b", "messages.0.citations": nil, "messages.1.role": "assistant", "messages.2.role": "user",
		"messages.2.status": string(domain.RunCancelled), "messages.3": nil, "runs": 2.0,
	} {
		if v := got.json(t, path); v != want {
			t.Errorf("%s is %v, want %v\n%s", path, v, want, got.body)
		}
	}
}

func TestSessionsOfAgentsAndTemplatesNeverMeet(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	me := []string{h.owner.auth, h.header}
	a.finish("agent's", a.newChat(h, agentID, "s", me...))
	a.finish("template's", a.ok("POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"s","message":"m"}`,
		append(me, "Prefer: respond-async")...).text(t, "id"))
	byAgent, byTemplate := "/api/sessions?id=s&agentId="+agentID, "/api/sessions?id=s&templateId=tpl_support"
	got := a.ok("GET", byTemplate, "", me...)
	if got.text(t, "templateId") != "tpl_support" || got.json(t, "agentId") != nil || got.text(t, "messages.1.content") != "template's" || got.json(t, "messages.2") != nil {
		t.Errorf("template's session %s", got.body)
	}
	a.ok("DELETE", byTemplate, "", me...)
	a.from("GET", byTemplate, "", me...).want(t, "erased", 404, "not_found")
	if got := a.ok("GET", byAgent, "", me...); got.text(t, "agentId") != agentID || got.text(t, "messages.1.content") != "agent's" || got.json(t, "messages.2") != nil {
		t.Errorf("agent's session %s", got.body)
	}
}

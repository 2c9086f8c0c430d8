package httpapi

import (
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/store/blobdb"
)

// newFileAgent returns an agent of h whose widget accepts attachments from widgetPage.
func (a *runEnv) newFileAgent(h *testOrg) string {
	a.t.Helper()
	agentID := a.newWidgetAgent(h, widgetPage)
	a.ok("PUT", "/api/agents?id="+agentID, `{"widget":{"attachments":true}}`, h.owner.auth)
	return agentID
}

// sendFile uploads a text as a visitor.
func (a *runEnv) sendFile(g guest, query, content string) answer {
	a.t.Helper()
	return a.from("POST", "/api/files"+query, content, append(slices.Clone(g.headers), "Content-Type: text/plain")...)
}

// one returns the only value of a database query, as text.
func (a *runEnv) one(query string, args ...any) (value string) {
	a.t.Helper()
	must(a.t, a.sql.QueryRowContext(a.t.Context(), query, args...).Scan(&value))
	return value
}

// attaches sends a visitor's message with the attachments in a JSON list.
func (a *runEnv) attaches(g guest, session, attachments string) answer {
	a.t.Helper()
	return a.from("POST", "/api/agents?action=chat&id="+g.agent, `{"sessionId":"`+session+`","message":"look","attachments":`+attachments+`}`,
		append(slices.Clone(g.headers), "Prefer: respond-async")...)
}

// If an agent's widget accepts attachments, visitors can attach files that they have uploaded. The
// organization can read the files. When the session is erased, the files are erased, too.
func TestVisitorsAttachFiles(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newFileAgent(h)
	got := a.visit(agentID, signed(agentID, "ada"), widgetPage).want(t, "token", 201, "")
	if got.json(t, "agent.attachments") != true {
		t.Errorf("the page receives %s", got.body)
	}
	ada := newGuest(agentID, got.text(t, "token"), widgetPage, "")

	sent := a.sendFile(ada, "?name=notes.txt&sessionId=s", "a visitor's words").want(t, "upload", 201, "")
	if sent.sharedWith() != widgetPage || sent.text(t, "name") != "notes.txt" {
		t.Errorf("%v %s", sent.header, sent.body)
	}
	a.sendFile(ada, "?name=notes.txt", "x").want(t, "without a session", 400, "invalid_request sessionId:required")
	other := a.sendFile(ada, "?sessionId=s", "not attached").want(t, "another", 201, "")

	run := a.attaches(ada, "s", `[{"fileId":"`+sent.text(t, "id")+`"}]`).want(t, "message", 202, "")
	fileID := run.text(t, "attachments.0.fileId")
	if run.text(t, "attachments.0.name") != "notes.txt" {
		t.Errorf("%s", run.body)
	}
	if read := a.ok("GET", "/api/files?id="+fileID, "", h.owner.auth); string(read.body) != "a visitor's words" {
		t.Errorf("%s", read.body)
	}
	for _, name := range []string{fileID, sent.text(t, "id"), other.text(t, "id")} {
		a.from("GET", "/api/files?id="+name, "", ada.headers...).want(t, "reading as a visitor", 403, "permission_denied")
	}

	a.finish("answer", run.text(t, "id"))
	a.ok("DELETE", "/api/sessions?id=s&agentId="+agentID+"&principal=widget:id:ada", "", h.owner.auth)
	if left := a.one(`SELECT count(*)::text FROM files WHERE org_id = $1`, h.org); left != "0" {
		t.Errorf("%s files are left", left)
	}
	a.logsClean("a visitor's words")
}

// A visitor's upload cannot be used by other visitors or members, for other agents, or in other
// sessions or organizations.
func TestVisitorsFilesAreApart(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("red"), a.newTestOrg("blue")
	agentID, sibling, foreign, closed := a.newFileAgent(h), a.newFileAgent(h), a.newFileAgent(away), a.newWidgetAgent(h, widgetPage)
	ada := a.guest(agentID, signed(agentID, "ada"))
	fileID := a.sendFile(ada, "?sessionId=s", "secret").want(t, "upload", 201, "").text(t, "id")
	list := `[{"fileId":"` + fileID + `"}]`
	const missing = "invalid_request attachments[0].fileId:invalid_value"
	for name, c := range map[string]struct {
		by      guest
		session string
	}{
		"another visitor":              {a.guest(agentID, signed(agentID, "bob")), "s"},
		"an anonymous visitor":         {a.guest(agentID, ""), "s"},
		"the visitor at another agent": {a.guest(sibling, signed(sibling, "ada")), "s"},
		"another organization":         {a.guest(foreign, signed(foreign, "ada")), "s"},
		"another session":              {ada, "t"},
	} {
		a.attaches(c.by, c.session, list).want(t, name, 400, missing)
	}
	a.from("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"m","attachments":`+list+`}`, h.owner.auth).want(t, "an owner", 400, missing)

	// A file of a run cannot be attached like an upload, even if the visitor may read the run.
	sent := a.attaches(ada, "s", list).want(t, "its visitor", 202, "").text(t, "attachments.0.fileId")
	a.attaches(ada, "s", `[{"fileId":"`+sent+`"}]`).want(t, "a run's file", 400, missing)
	for _, other := range []string{`{"data":"aGk="}`, `{"url":"https://example.com/a.png"}`} {
		a.attaches(ada, "s", "["+other+"]").want(t, other, 400, "invalid_request attachments[0]:invalid_value")
	}

	// An agent that no longer accepts attachments also rejects files that were uploaded before.
	a.sendFile(a.guest(closed, ""), "?sessionId=s", "x").want(t, "an agent without attachments", 403, "permission_denied")
	kept := a.sendFile(ada, "?sessionId=s", "kept").want(t, "before", 201, "").text(t, "id")
	a.ok("PUT", "/api/agents?id="+agentID, `{"widget":{"attachments":false}}`, h.owner.auth)
	a.sendFile(ada, "?sessionId=s", "x").want(t, "switched off", 403, "permission_denied")
	a.attaches(ada, "s", `[{"fileId":"`+kept+`"}]`).want(t, "an earlier upload", 403, "permission_denied")
	a.logsClean("secret")
}

// The storage of each visitor is limited, and so is the storage of all visitors of an organization
// together. Other visitors and organizations are not affected.
func TestVisitorsFilesAreBounded(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("red"), a.newTestOrg("blue")
	agentID, foreign := a.newFileAgent(h), a.newFileAgent(away)
	ada, bob, neighbour := a.guest(agentID, signed(agentID, "ada")), a.guest(agentID, signed(agentID, "bob")), a.guest(foreign, "")
	full := func(what string, g guest) {
		t.Helper()
		got := a.sendFile(g, "?sessionId=s", "x").want(t, what, 429, "rate_limited")
		if wait, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || wait < 60 || wait > 3600 || got.sharedWith() != widgetPage {
			t.Errorf("%s: %v", what, got.header)
		}
	}
	room := func(what string, g guest) {
		t.Helper()
		a.sendFile(g, "?sessionId=s", "x").want(t, what, 201, "")
	}

	for n := range blobdb.VisitorUploads {
		a.sendFile(ada, "?sessionId=s", "number "+strconv.Itoa(n)).want(t, "upload", 201, "")
	}
	full("too many", ada)
	room("another visitor", bob)
	a.exec(`UPDATE files SET bytes = $1 WHERE principal = 'widget:id:bob'`, blobdb.VisitorBytes)
	full("too large together", bob)
	a.exec(`UPDATE files SET sweep_after = now() - interval '1 second', bytes = 1 WHERE principal = 'widget:id:bob'`)
	room("after an hour", bob)

	// All visitors together may use a quarter of the organization's quota. In this test they have
	// 42 files of 4 KiB.
	a.rebuild(func(d *Deps) { d.FilesPerOrganization = 4 * 43 << 12 })
	a.sendFile(a.guest(agentID, ""), "?sessionId=s", strings.Repeat("x", 4000)).want(t, "beyond the visitors' share", 429, "budget_exceeded")
	a.upload("?name=a.txt", "text/plain", "a member's", h.member.auth, h.header)
	room("another organization", neighbour)
	upload := a.one(`SELECT id FROM files WHERE principal = 'widget:id:ada' LIMIT 1`)
	list := strings.Repeat(`{"fileId":"`+upload+`"},`, 9) + `{"fileId":"` + upload + `"}`
	a.attaches(ada, "s", "["+list+"]").want(t, "attaching beyond the share", 429, "budget_exceeded")
	a.chatWith(a.newAgent(h), `[{"data":"aGk="}]`, h.member.auth, h.header).want(t, "a member's message", 202, "")
}

// Uploads of visitors and uploads of members take separate slots.
func TestVisitorsUploadsHaveTheirOwnSlots(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	g := a.guest(a.newFileAgent(h), "")
	visitors, members := a.api.runs.VisitorUploads, a.api.runs.Uploads
	visitors.Policy, members.Policy = impatient(transfer.VisitorFiles), impatient(transfer.Documents)
	fill := func(all *transfer.Limiter) (slots []*transfer.Slot) {
		t.Helper()
		for n := range all.PerOrganization {
			who := transfer.Owner{Organization: h.org, Credential: strconv.Itoa(n), Client: "192.0.2." + strconv.Itoa(n)}
			slots = append(slots, takeSlot(t, all, httptest.NewRecorder(), who))
		}
		return slots
	}
	taken := fill(visitors)
	a.sendFile(g, "?sessionId=s", "x").want(t, "beside other visitors", 429, "rate_limited")
	a.upload("?name=a.txt", "text/plain", "a member's", h.member.auth, h.header)
	for _, slot := range taken {
		visitors.Leave(slot)
	}
	fill(members)
	a.sendFile(g, "?sessionId=s", "x").want(t, "beside members", 201, "")
}

// The response with a widget token contains the questions that an empty chat suggests.
func TestVisitorsSeeSuggestions(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newWidgetAgent(h, widgetPage)
	if got := a.visit(agentID, "", widgetPage); !strings.Contains(string(got.body), `"suggestions":[],"attachments":false`) {
		t.Errorf("%s", got.body)
	}
	a.ok("PUT", "/api/agents?id="+agentID, `{"suggestions":["Which lamp dims?","Où est ma lampe ?"]}`, h.owner.auth)
	if got := a.visit(agentID, "", widgetPage); got.text(t, "agent.suggestions.1") != "Où est ma lampe ?" {
		t.Errorf("%s", got.body)
	}
}

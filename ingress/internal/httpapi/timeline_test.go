package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"parley/shared/domain"
)

func TestTimelinesAreAsOpenAsTheirRuns(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	agentID := a.newAgent(h)
	runID := a.newChat(h, agentID, "s", h.member.auth, h.header)
	path := "/api/runs?timeline=1&id=" + runID
	queued := a.ok("GET", path, "", h.member.auth, h.header)
	if queued.text(t, "runId") != runID || queued.text(t, "status") != "queued" || queued.text(t, "spans.0.kind") != "queue" ||
		queued.text(t, "spans.0.status") != "waiting" || queued.json(t, "spans.1") != nil {
		t.Errorf("queued: %s", queued.body)
	}
	a.park(runID, "publish", domain.ActionApproval)
	if got := a.ok("GET", path, "", h.admin.auth, h.header); got.text(t, "spans.2.kind") != "wait" || got.text(t, "spans.2.name") != "publish" ||
		got.text(t, "spans.2.toolCallId") != "call_1" || got.text(t, "spans.2.message") != "approval" || got.json(t, "spans.2.finishedAt") != nil {
		t.Errorf("waiting: %s", got.body)
	}
	a.decide(runID, "deny", "call_1", h.member.auth, h.header).want(t, "denying", 200, "")
	a.finish("answer", runID)
	ended := a.ok("GET", "/api/runs?timeline=true&id="+runID, "", h.key)
	var kinds []string
	for i := range 5 {
		kinds = append(kinds, ended.text(t, fmt.Sprintf("spans.%d.kind", i))+" "+ended.text(t, fmt.Sprintf("spans.%d.status", i)))
	}
	if got := strings.Join(kinds[:3], ", "); ended.text(t, "status") != "completed" || got != "queue completed, attempt completed, wait completed" {
		t.Errorf("ended: %s: %s", got, ended.body)
	}
	for name, headers := range map[string][]string{
		"another organization's": {away.owner.auth}, "another member's": {h.memberKey, h.header},
	} {
		a.from("GET", path, "", headers...).want(t, name, 404, "not_found")
	}
	a.ok("DELETE", "/api/sessions?id=s&agentId="+agentID, "", h.member.auth, h.header)
	a.from("GET", path, "", h.key).want(t, "erased", 410, "erased")
}

func TestTimelineHasTheRequest(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	input := func(options string) answer {
		t.Helper()
		runID := a.ok("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"m"`+options+`}`, h.key, "Prefer: respond-async").text(t, "id")
		return a.ok("GET", "/api/runs?timeline=1&id="+runID, "", h.key)
	}
	shown := input(`,"output":{"schema":{"type":"object"}},"temperature":1,"attachments":[{"data":"aGk=","name":"notes.md"}],
		"tools":[{"name":"locate","description":"Returns the position."}]`)
	for path, want := range map[string]string{
		"message": "m", "output.schema.type": "object", "attachments.0.name": "notes.md",
		"clientTools.tools.0.name": "locate", "clientTools.tools.0.description": "Returns the position.",
	} {
		if got := shown.text(t, "input."+path); got != want {
			t.Errorf("%s = %q", path, got)
		}
	}
	if shown.json(t, "input.settings.temperature") == nil || shown.json(t, "input.history") != nil {
		t.Errorf("input with options: %s", shown.body)
	}
	if shown := input(`,"output":null`); !strings.Contains(string(shown.body), `"input":{"message":"m","output":{"schema":null}}`) {
		t.Errorf("input without a schema: %s", shown.body)
	}
}

func TestTimelineParameters(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	runID := a.newChat(h, a.newAgent(h), "s", h.key)
	for query, problems := range map[string]string{
		"timeline=1&wait=1":               "wait:invalid_value",
		"timeline=1&stream=1":             "stream:invalid_value",
		"timeline=1&stream=1&wait=1":      "wait:invalid_value stream:invalid_value",
		"timeline=0":                      "timeline:invalid_value",
		"timeline=":                       "timeline:invalid_value",
		"timeline=1&timeline=1":           "timeline:duplicate",
		"timeline=yes&wait=x":             "wait:invalid_value timeline:invalid_value",
		"timeline=true&stream=0&wait=abc": "stream:invalid_value wait:invalid_value",
	} {
		a.from("GET", "/api/runs?id="+runID+"&"+query, "", h.key).want(t, query, 400, "invalid_request "+problems)
	}
}

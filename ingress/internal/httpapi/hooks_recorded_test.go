package httpapi

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recordedEvent is an event in the form in which its source sends it, with templates and filters
// and their expected results.
type recordedEvent struct {
	source, file       string
	deliveryID, event  string
	template, want     string
	passes, passesNot  string // a filter that the event matches, and a filter that it does not match
	changed, changedTo string // a text in the event, and another text that replaces it and differs in one byte
}

var recordings = []recordedEvent{
	{
		source: "github", file: "github_issues_opened.json", deliveryID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", event: "issues",
		template:  "{{sender.login}} {{action}} #{{issue.number}} of {{repository.full_name}}: {{issue.title}} ({{issue.labels.0.name}})",
		want:      "⟦Codertocat⟧ ⟦opened⟧ #⟦1⟧ of ⟦Codertocat/Hello-World⟧: ⟦Spelling error in the README file⟧ (⟦bug⟧)",
		passes:    `[{"path":"@event","op":"eq","value":"issues"},{"path":"action","op":"eq","value":"opened"}]`,
		passesNot: `[{"path":"action","op":"eq","value":"closed"}]`, changed: `"opened"`, changedTo: `"openec"`,
	},
	{
		source: "stripe", file: "stripe_setup_intent_created.json", deliveryID: "evt_1NG8Du2eZvKYlo2CUI79vXWy", event: "setup_intent.created",
		template: "{{type}}: {{data.object.id}} is {{data.object.status}}, by {{data.object.payment_method_types.0}}, {{livemode}}",
		want:     "⟦setup_intent.created⟧: ⟦seti_1NG8Du2eZvKYlo2C9XMqbR0x⟧ is ⟦requires_confirmation⟧, by ⟦acss_debit⟧, ⟦false⟧",
		passes:   `[{"path":"type","op":"eq","value":"setup_intent.created"}]`, passesNot: `[{"path":"livemode","op":"eq","value":"true"}]`,
		changed: `"usage": "off`, changedTo: `"usage": "Off`,
	},
	{
		source: "slack", file: "slack_event.json", deliveryID: "Ev08MFMKH6", event: "name_of_event",
		template: "{{@event}} of {{event.user}} in {{team_id}}", want: "⟦name_of_event⟧ of ⟦UXXXXXXX1⟧ in ⟦TXXXXXXXX⟧",
		passes: `[{"path":"event.type","op":"eq","value":"name_of_event"}]`, passesNot: `[{"path":"@event","op":"ne","value":"name_of_event"}]`,
		changed: "XXYYZZ", changedTo: "XXYYZY",
	},
}

// A recorded delivery that matches the filter starts one run, whose message the template
// determines. A delivery with a changed byte, an old timestamp or the id of an earlier delivery
// starts none.
func TestRecordedDeliveries(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	for _, r := range recordings {
		t.Run(r.source, func(t *testing.T) {
			t.Parallel()
			body, err := os.ReadFile(filepath.Join("testdata", "recorded", r.file))
			must(t, err)
			a.recordedRuns(t, h, &r, string(body))
		})
	}
}

func (a *runEnv) recordedRuns(t *testing.T, h *testOrg, r *recordedEvent, body string) {
	t.Helper()
	template := `"messageTemplate":"` + r.template + `"`
	hookID := a.newHook(h, r.source, template, `"filter":`+r.passes)
	got := a.deliver(hookID, r.source, r.deliveryID, r.event, body).want(t, "delivered", 202, "")
	runID := got.text(t, "runId")
	if got.text(t, "deliveryId") != r.deliveryID || got.text(t, "status") != "accepted" {
		t.Errorf("taken: %s", got.body)
	}
	again := a.deliver(hookID, r.source, r.deliveryID, r.event, body).want(t, "again", 202, "")
	if again.text(t, "runId") != runID || again.json(t, "duplicate") != true {
		t.Errorf("again: %s", again.body)
	}
	if message, _ := a.input(t, runID); message != r.want {
		t.Errorf("the run was asked\n%s\nand not\n%s", message, r.want)
	}
	other := strings.Replace(body, r.changed, r.changedTo, 1)
	if other == body {
		t.Fatalf("%q is not in it", r.changed)
	}
	for what, change := range map[string]func(*http.Request){
		"one byte changed": func(req *http.Request) {
			req.Body = httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(other)).Body
		},
		"six minutes old": func(req *http.Request) {
			signAs(req.Header, r.source, r.deliveryID, r.event, body, time.Now().Add(-6*time.Minute))
		},
	} {
		if r.source == "github" && what == "six minutes old" {
			continue // this source does not sign the time
		}
		req := a.delivery(hookID, r.source, r.deliveryID, r.event, body)
		change(req)
		a.send(req).want(t, what, 401, "unauthenticated")
	}
	if runs := a.ok("GET", "/api/runs?agentId="+a.ok("GET", "/api/runs?id="+runID, "", h.key).text(t, "agentId"), "", h.key); runs.json(t, "data.1") != nil {
		t.Errorf("runs: %s", runs.body)
	}
	deaf := a.newHook(h, r.source, template, `"filter":`+r.passesNot)
	got = a.deliver(deaf, r.source, r.deliveryID, r.event, body).want(t, "filtered", 202, "")
	if got.text(t, "status") != "filtered" || got.json(t, "runId") != nil {
		t.Errorf("filtered: %s", got.body)
	}
}

package httpapi

import (
	"encoding/json"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
)

type rateShown struct {
	Name          string `json:"name"`
	Requests      int    `json:"requests"`
	WindowSeconds int    `json:"windowSeconds"`
	Per           string `json:"per"`
}

type documentsShown struct {
	Count    int64  `json:"count"`
	Bytes    int64  `json:"bytes"`
	Max      *int64 `json:"most"`
	MaxBytes *int64 `json:"bytesMost"`
}

// limitsShown is the decoded response that shows an organization's limits.
type limitsShown struct {
	Rates     []rateShown    `json:"rates"`
	Documents documentsShown `json:"documents"`
	Streams   struct {
		PerCredential   int `json:"perCredential"`
		PerOrganization int `json:"perOrganization"`
	} `json:"streams"`
	Voice struct {
		PerOrganization int `json:"perOrganization"`
	} `json:"voice"`
	Run struct {
		DeadlineSeconds int `json:"deadlineSeconds"`
	} `json:"run"`
}

func TestAnOrganizationSeesItsLimits(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	a.rebuild(func(d *Deps) {
		d.StreamLimits.StreamsPerCredential, d.StreamLimits.StreamsPerOrganization = 7, 70
		d.RunDeadline, d.VoicePerOrganization = 90*time.Second, 17
	})
	ada, bob := a.signUp("ada@example.com"), a.signUp("bob@example.com")
	a.join(bob, ada.org, domain.RoleMember)
	read := func(what string, headers ...string) (got limitsShown) {
		t.Helper()
		must(t, json.Unmarshal(a.do("GET", "/api/organizations/limits", "", headers...).want(t, what, 200, "").body, &got))
		return got
	}
	got := read("before", ada.auth)
	rates := map[string]rateShown{}
	for _, r := range got.Rates {
		rates[r.Name] = r
	}
	if rates["user"] != (rateShown{"user", unlimited.User, 60, "credential"}) || rates["system"] != (rateShown{"system", unlimited.System, 60, "organization"}) ||
		rates["demo"] != (rateShown{"demo", unlimited.Demo, 60, "address"}) || rates["widget-agent"].Per != "agent" ||
		rates["widget-tokens"] != (rateShown{"widget-tokens", unlimited.Widget.Agent, 60, "agent"}) || len(rates) != 8 ||
		rates["user-total"] != (rateShown{"user-total", 2 * unlimited.User, 60, "user"}) {
		t.Errorf("rates %+v", got.Rates)
	}
	if got.Documents != (documentsShown{}) || got.Streams.PerCredential != 7 || got.Streams.PerOrganization != 70 || got.Voice.PerOrganization != 17 ||
		got.Run.DeadlineSeconds != 90 {
		t.Errorf("%+v", got)
	}
	a.rebuild(func(d *Deps) { d.Documents = knowledgedb.DocumentLimits{Documents: 5, Bytes: 1000} })
	for _, content := range []string{"twelve bytes", "ten bytes."} {
		a.do("POST", "/api/knowledge", `{"name":"a.txt","content":"`+content+`"}`, ada.auth).want(t, "a document", 202, "")
	}
	a.do("POST", "/api/knowledge", `{"name":"a.txt","content":"another organization's"}`, bob.auth, "X-Organization-Id: "+bob.org).want(t, "a document", 202, "")
	for who, headers := range map[string][]string{"owner": {ada.auth}, "member": {bob.auth, "X-Organization-Id: " + ada.org}} {
		if d := read(who, headers...).Documents; d.Count != 2 || d.Bytes != 22 || *d.Max != 5 || *d.MaxBytes != 1000 {
			t.Errorf("%s: %+v", who, d)
		}
	}
}

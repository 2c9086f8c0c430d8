package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/endpoint"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/testkit"
)

const newEndpoint = `{"url":"https://example.com/hook?a=b","events":["run.failed","knowledge.ready"]}`

func TestNotificationEndpoints(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	agentID := w.do("POST", "/api/agents", smallAgent, ada.auth).want(t, "agent", 201, "").text(t, "id")
	a := w.do("POST", "/api/notifications", `{"url":"https://example.com/hook","description":"d","events":["run.failed"],"agentId":"`+agentID+`"}`, ada.auth).
		want(t, "creating", 201, "")
	endpointID, secret := a.text(t, "id"), a.text(t, "secret")
	if !id.Valid(id.Endpoint, endpointID) || endpoint.CheckSecret(secret) != nil || a.json(t, "enabled") != true || a.text(t, "agentId") != agentID ||
		a.json(t, "disabledReason") != nil || a.json(t, "previousSecretUntil") != nil {
		t.Errorf("new endpoint %s", a.body)
	}
	one := w.do("GET", "/api/notifications?id="+endpointID, "", ada.auth).want(t, "reading", 200, "")
	if one.text(t, "secret") != "***" {
		t.Errorf("read as %s", one.body)
	}
	if all := w.do("GET", "/api/notifications", "", ada.auth).want(t, "listing", 200, ""); strings.Contains(string(all.body), secret) || all.text(t, "data.0.id") != endpointID {
		t.Errorf("listed as %s", all.body)
	}
	w.do("PUT", "/api/notifications?id="+endpointID, string(one.body), ada.auth).want(t, "as it was read", 200, "")
	a = w.do("PUT", "/api/notifications?id="+endpointID, `{"agentId":null,"enabled":false}`, ada.auth).want(t, "changing", 200, "")
	if a.json(t, "agentId") != nil || a.json(t, "enabled") != false || a.text(t, "disabledAt") == "" || a.json(t, "disabledReason") != nil || a.text(t, "description") != "d" {
		t.Errorf("changed to %s", a.body)
	}
	a = w.do("POST", "/api/notifications?action=rotate&id="+endpointID, "", ada.auth).want(t, "rotating", 200, "")
	until, err := time.Parse(time.RFC3339, a.text(t, "previousSecretUntil"))
	if newer := a.text(t, "secret"); err != nil || newer == secret || endpoint.CheckSecret(newer) != nil || time.Until(until) < 23*time.Hour || time.Until(until) > 25*time.Hour {
		t.Errorf("rotated to %s", a.body)
	}
	var sealed string
	must(t, testkit.SQL(t, w.dsn).QueryRowContext(t.Context(), `SELECT previous_secret FROM notification_endpoints WHERE id = $1`, endpointID).Scan(&sealed))
	if opened, err := w.api.Secrets.Open(sealed, secrets.NotificationEndpoint(ada.org, endpointID)); err != nil || opened != secret {
		t.Errorf("sealed is %q, %v", opened, err)
	}
	key, _ := w.key(ada, domain.KeyScopeOrganization)
	w.do("DELETE", "/api/notifications?id="+endpointID, "", bea.auth).want(t, "somebody else's", 404, "not_found")
	w.do("DELETE", "/api/notifications?id="+endpointID, "", key).want(t, "deleting", 200, "")
	w.do("GET", "/api/notifications?id="+endpointID, "", ada.auth).want(t, "deleted", 404, "not_found")
	if n := w.notifyRecorder.published["notifications "+ada.org]; n != 4 {
		t.Errorf("%d changes were published", n)
	}
}

func TestNotificationEndpointsAreChecked(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	agentID := w.do("POST", "/api/agents", smallAgent, bea.auth).want(t, "agent", 201, "").text(t, "id")
	for name, c := range map[string]struct{ body, problems string }{
		"nothing":         {`{}`, "url:required events:required"},
		"no events":       {`{"url":"https://example.com","events":[]}`, "events:too_short"},
		"other events":    {`{"url":"https://example.com","events":["run.failed","ping","run.failed"]}`, "events[1]:invalid_value events[2]:duplicate"},
		"long":            {`{"url":"https://example.com","events":["run.failed"],"description":"` + strings.Repeat("x", 2001) + `"}`, "description:too_long"},
		"a foreign agent": {`{"url":"https://example.com","events":["run.failed"],"agentId":"` + agentID + `"}`, "agentId:invalid_value"},
		"no agent":        {`{"url":"https://example.com","events":["run.failed"],"agentId":"x"}`, "agentId:invalid_value"},
		"own secret":      {`{"url":"https://example.com","events":["run.failed"],"secret":"whsec_x"}`, "secret:unknown_field"},
	} {
		w.do("POST", "/api/notifications", c.body, ada.auth).want(t, name, 400, "invalid_request "+c.problems)
	}
	for _, address := range []string{
		"", "example.com", "ftp://example.com", "http://example.com", "https://user@example.com", "https://example.com/#x", "https://example.com/{id}",
		"https://127.0.0.1/", "https://[::1]/", "https://2130706433/", "https://169.254.169.254/latest", "https://10.0.0.1", "http://127.0.0.1:8081/",
		"https://example.com:0/", "https://[::ffff:127.0.0.1]/", "https://127.1/", "https://example.com/a b",
	} {
		w.do("POST", "/api/notifications", fmt.Sprintf(`{"url":%q,"events":["run.failed"]}`, address), ada.auth).want(t, address, 400, "invalid_request url:invalid_value")
	}
	w.do("POST", "/api/notifications?id="+id.New(id.Endpoint), newEndpoint, ada.auth).want(t, "no action", 400, "invalid_request action:required")
	w.do("POST", "/api/notifications?action=x", newEndpoint, ada.auth).want(t, "another action", 400, "invalid_request action:invalid_value")
	for _, address := range []string{"http://127.0.0.1:8080/opened", "https://example.com:8443/", "https://1.1.1.1"} {
		w.do("POST", "/api/notifications", fmt.Sprintf(`{"url":%q,"events":["run.failed"]}`, address), ada.auth).want(t, address, 201, "")
	}
	for range 7 {
		w.do("POST", "/api/notifications", newEndpoint, ada.auth).want(t, "ten", 201, "")
	}
	w.do("POST", "/api/notifications", newEndpoint, ada.auth).want(t, "eleven", 409, "conflict")
	other := w.do("POST", "/api/notifications", newEndpoint, bea.auth).want(t, "another organization's", 201, "").text(t, "id")
	for body, problems := range map[string]string{
		`{"secret":"whsec_x"}`: "secret:invalid_value", `{"url":"http://10.0.0.1"}`: "url:invalid_value", `{"id":"ntf_x"}`: "id:invalid_value",
		`{"events":null}`: "events:invalid_type", `{"agentId":"` + id.New(id.Agent) + `"}`: "agentId:invalid_value",
	} {
		w.do("PUT", "/api/notifications?id="+other, body, bea.auth).want(t, body, 400, "invalid_request "+problems)
	}
	w.do("PUT", "/api/notifications", `{}`, bea.auth).want(t, "no id", 400, "invalid_request id:required")
}

func TestNotificationMessages(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	var endpoints, messages []string
	for range 2 {
		endpoints = append(endpoints, w.do("POST", "/api/notifications", newEndpoint, ada.auth).want(t, "endpoint", 201, "").text(t, "id"))
		a := w.do("POST", "/api/notifications?action=test&id="+endpoints[len(endpoints)-1], "", ada.auth).want(t, "testing", 202, "")
		messages = append(messages, a.text(t, "id"))
		if a.text(t, "status") != "pending" || a.text(t, "payload.type") != "ping" || a.text(t, "payload.data.endpointId") != endpoints[len(endpoints)-1] {
			t.Errorf("a ping %s", a.body)
		}
	}
	listed := func(query string) (found []string) {
		t.Helper()
		a := w.do("GET", "/api/notifications/messages?"+query, "", ada.auth).want(t, query, 200, "")
		for n := range 2 {
			if messageID := a.text(t, fmt.Sprintf("data.%d.id", n)); messageID != "" {
				found = append(found, messageID)
			}
		}
		return found
	}
	newest := slices.Clone(messages)
	slices.Sort(newest)
	slices.Reverse(newest)
	w.exec(`UPDATE notifications SET status = 'failed', attempts = 1, response_status = 500, error = 'The endpoint responded with status 500.' WHERE id = $1`, messages[0])
	for query, want := range map[string][]string{
		"": newest, "status=failed": messages[:1], "status=pending": messages[1:], "endpointId=" + endpoints[1]: messages[1:],
		"status=delivered": nil, "endpointId=" + endpoints[1] + "&status=failed": nil,
	} {
		if got := listed(query); !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want %v", query, got, want)
		}
	}
	for query, problems := range map[string]string{
		"status=sent": "status:invalid_value", "limit=0": "limit:invalid_value", "cursor=x": "cursor:invalid_value", "endpointId=a&endpointId=b": "endpointId:duplicate",
	} {
		w.do("GET", "/api/notifications/messages?"+query, "", ada.auth).want(t, query, 400, "invalid_request "+problems)
	}
	if one := w.do("GET", "/api/notifications/messages?id="+messages[0], "", ada.auth).want(t, "one", 200, ""); one.text(t, "error") != "The endpoint responded with status 500." ||
		one.text(t, "payload.data.endpointId") != endpoints[0] || one.json(t, "responseStatus") != 500.0 || one.json(t, "nextAttemptAt") != nil {
		t.Errorf("one is %s", one.body)
	}
	again := w.do("POST", "/api/notifications/messages?action=resend&id="+messages[0], "", ada.auth).want(t, "resending", 202, "")
	if again.text(t, "id") != messages[0] || again.text(t, "status") != "pending" || again.json(t, "attempts") != 0.0 {
		t.Errorf("sent again %s", again.body)
	}
	w.do("POST", "/api/notifications/messages?id="+messages[0], "", ada.auth).want(t, "no action", 400, "invalid_request action:invalid_value")
	w.do("POST", "/api/notifications/messages?action=resend", "", ada.auth).want(t, "no id", 400, "invalid_request id:required")
	w.exec(`UPDATE notifications SET data = NULL WHERE id = $1`, messages[0])
	w.do("POST", "/api/notifications/messages?action=resend&id="+messages[0], "", ada.auth).want(t, "not kept", 410, "erased")
}

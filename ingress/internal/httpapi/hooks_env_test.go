package httpapi

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/hook"
)

const hookSecret = "a secret of the tests"

// hookBody returns the body for creating a hook with the secret hookSecret. The argument more
// contains additional fields, such as `"enabled":false`.
func hookBody(agentID, source string, more ...string) string {
	secret := hookSecret
	if source == "standard" {
		secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	}
	fields := append([]string{`"name":"` + source + ` hook"`, `"agentId":"` + agentID + `"`, `"source":"` + source + `"`, `"secret":"` + secret + `"`}, more...)
	if !strings.Contains(strings.Join(more, ""), "messageTemplate") {
		fields = append(fields, `"messageTemplate":"It is {{a}}."`)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// newHookWithDelivery creates a hook with the organization's key. The hook has already accepted the
// delivery d1.
func (a *runEnv) newHookWithDelivery(h *testOrg) string {
	a.t.Helper()
	hookID := a.newHook(h, "hmac", `"deliveryIdHeader":"X-Id"`)
	a.deliver(hookID, "hmac", "d1", "", `{"a":"`+h.word+`"}`).want(a.t, "delivering", 202, "")
	return hookID
}

func (a *runEnv) newHook(h *testOrg, source string, more ...string) string {
	a.t.Helper()
	return a.ok("POST", "/api/hooks", hookBody(a.newAgent(h), source, more...), h.key).text(a.t, "id")
}

// deliver sends a delivery that is signed with hookSecret as the source would sign it.
func (a *runEnv) deliver(hookID, source, deliveryID, event, body string, headers ...string) answer {
	a.t.Helper()
	return a.send(a.delivery(hookID, source, deliveryID, event, body, headers...))
}

func (a *runEnv) delivery(hookID, source, deliveryID, event, body string, headers ...string) *http.Request {
	req := httptest.NewRequestWithContext(a.t.Context(), "POST", hook.ReceivePath+hookID, bytes.NewReader([]byte(body)))
	req.Header.Set("Content-Type", "application/json")
	signAs(req.Header, source, deliveryID, event, body, time.Now())
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	return req
}

// signAs sets the headers with which a source signs a delivery. It computes the signature without
// the code under test.
func signAs(header http.Header, source, deliveryID, event, body string, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	sum := func(key, text string) []byte {
		mac := hmac.New(sha256.New, []byte(key))
		_, _ = mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	digits := func(text string) string { return hex.EncodeToString(sum(hookSecret, text)) }
	switch source {
	case "github":
		header.Set("X-Github-Event", event)
		header.Set("X-Github-Delivery", deliveryID)
		header.Set("X-Hub-Signature-256", "sha256="+digits(body))
	case "stripe":
		header.Set("Stripe-Signature", "t="+at+",v1="+digits(at+"."+body))
	case "slack":
		header.Set("X-Slack-Request-Timestamp", at)
		header.Set("X-Slack-Signature", "v0="+digits("v0:"+at+":"+body))
	case "standard":
		header.Set("Webhook-Id", deliveryID)
		header.Set("Webhook-Timestamp", at)
		mac := sum(strings.Repeat("k", 32), deliveryID+"."+at+"."+body)
		header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac))
	case "hmac":
		header.Set("X-Signature", digits(body))
		header.Set("X-Id", deliveryID)
	case "token":
		header.Set("X-Token", hookSecret)
		header.Set("X-Id", deliveryID)
	}
}

// input claims the run and returns the input that a worker receives.
func (a *runEnv) input(tb testing.TB, runID string) (message string, data map[string]any) {
	tb.Helper()
	claim := a.claim(tb, runID)
	if claim.Run == nil {
		tb.Fatalf("run %s cannot be claimed: %+v", runID, claim)
	}
	in, err := claim.Run.Input()
	must(tb, err)
	must(tb, json.Unmarshal(in.Data, &data))
	return in.Message, data
}

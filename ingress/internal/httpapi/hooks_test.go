package httpapi

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
)

var whenUpdated = regexp.MustCompile(`"updatedAt":"[^"]*"`)

func TestHooks(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	made := a.ok("POST", "/api/hooks", `{"name":"issues","agentId":"`+agentID+`","source":"github","messageTemplate":"{{action}}"}`, h.key)
	hookID, secret := made.text(t, "id"), made.text(t, "secret")
	if !id.Valid(id.Hook, hookID) || len(secret) != 64 || made.text(t, "url") != "http://parley.test/api/hooks/receive/"+hookID ||
		made.text(t, "keyId") != h.keyID || made.json(t, "enabled") != true || made.json(t, "coalesce") != nil || made.json(t, "filter.0") != nil ||
		made.json(t, "signatureHeader") != "" || made.json(t, "lastDeliveryAt") != nil || made.json(t, "previousSecretUntil") != nil {
		t.Errorf("made: %s", made.body)
	}
	for _, target := range []string{"/api/hooks", "/api/hooks?id=" + hookID} {
		if got := a.ok("GET", target, "", h.owner.auth, h.header); !strings.Contains(string(got.body), hookID) || strings.Contains(string(got.body), secret) {
			t.Errorf("%s: %s", target, got.body)
		}
	}
	read := a.ok("GET", "/api/hooks?id="+hookID, "", h.key)
	again := a.ok("PUT", "/api/hooks?id="+hookID, string(read.body), h.key)
	if whenUpdated.ReplaceAllString(string(again.body), "") != whenUpdated.ReplaceAllString(string(read.body), "") {
		t.Errorf("sent back as it was read: %s, was %s", again.body, read.body)
	}
	changed := a.ok("PUT", "/api/hooks?id="+hookID, `{"name":"other","filter":[{"path":"action","op":"eq","value":"opened"}],`+
		`"coalesce":{"key":"{{issue.id}}","windowSeconds":5,"maxWaitSeconds":60},"enabled":false}`, h.key)
	if changed.text(t, "name") != "other" || changed.text(t, "filter.0.value") != "opened" || changed.json(t, "coalesce.maxWaitSeconds") != 60.0 ||
		changed.json(t, "enabled") != false || changed.text(t, "messageTemplate") != "{{action}}" {
		t.Errorf("changed: %s", changed.body)
	}
	if back := a.ok("PUT", "/api/hooks?id="+hookID, `{"coalesce":null,"filter":[]}`, h.key); back.json(t, "coalesce") != nil || back.json(t, "filter.0") != nil {
		t.Errorf("back: %s", back.body)
	}
	for source, want := range map[string]string{"hmac": "X-Signature", "token": "X-Token", "standard": "", "slack": "", "stripe": ""} {
		got := a.ok("POST", "/api/hooks", hookBody(agentID, source, `"keyId":"`+h.keyID+`"`), h.admin.auth, h.header)
		if got.json(t, "signatureHeader") != want || got.text(t, "secret") != "***" {
			t.Errorf("%s: %s", source, got.body)
		}
	}
	page := a.ok("GET", "/api/hooks?limit=5", "", h.key)
	if rest := a.ok("GET", "/api/hooks?cursor="+page.text(t, "nextCursor"), "", h.key); rest.text(t, "data.0.id") != hookID || rest.json(t, "data.1") != nil {
		t.Errorf("the second page: %s", rest.body)
	}
	a.ok("DELETE", "/api/hooks?id="+hookID, "", h.key)
	a.from("GET", "/api/hooks?id="+hookID, "", h.key).want(t, "deleted", 404, "not_found")
	a.from("PUT", "/api/hooks?id="+hookID, `{}`, h.key).want(t, "deleted", 404, "not_found")
	if strings.Contains(a.log.String(), secret) || strings.Contains(a.log.String(), hookSecret) {
		t.Error("a secret is in the log")
	}
}

func TestInvalidHooks(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	agentID := a.newAgent(h)
	key := `"keyId":"` + h.keyID + `"`
	_, users := a.newKey(h, h.owner, domain.KeyScopeUser)
	long := strings.Repeat("x", 32_001)
	for what, c := range map[string]struct{ body, problems string }{
		"nothing":         {`{}`, "source:required name:required agentId:required messageTemplate:required keyId:required"},
		"no key":          {hookBody(agentID, "github"), "keyId:required"},
		"a user's key":    {hookBody(agentID, "github", `"keyId":"`+users+`"`), "keyId:invalid_value"},
		"another's key":   {hookBody(agentID, "github", `"keyId":"`+away.keyID+`"`), "keyId:invalid_value"},
		"no key at all":   {hookBody(agentID, "github", `"keyId":""`), "keyId:invalid_value"},
		"source":          {`{"name":"n","agentId":"a","messageTemplate":"m","source":"gitlab",` + key + `}`, "source:invalid_value"},
		"name":            {`{"name":"a\u200bb","agentId":"a","messageTemplate":"m","source":"github",` + key + `}`, ""},
		"control":         {`{"name":"a\nb","agentId":"a","messageTemplate":"m","source":"github",` + key + `}`, "name:invalid_value"},
		"template":        {hookBody(agentID, "github", key, `"messageTemplate":"{{a"`), "messageTemplate:invalid_value"},
		"long template":   {hookBody(agentID, "github", key, `"messageTemplate":"`+long+`"`), "messageTemplate:too_long"},
		"empty template":  {hookBody(agentID, "github", key, `"messageTemplate":""`), "messageTemplate:too_short"},
		"code":            {hookBody(agentID, "github", key, `"messageTemplate":"{{a | upper}}"`), "messageTemplate:invalid_value"},
		"path":            {hookBody(agentID, "github", key, `"filter":[{"path":"a","op":"exists"},{"path":"a b","op":"eq","value":1}]`), "filter[1].path:invalid_value"},
		"op":              {hookBody(agentID, "github", key, `"filter":[{"path":"a","op":"like","value":1}]`), "filter[0].op:invalid_value"},
		"value":           {hookBody(agentID, "github", key, `"filter":[{"path":"a","op":"in","value":1}]`), "filter[0].value:invalid_value"},
		"no op":           {hookBody(agentID, "github", key, `"filter":[{"path":"a"}]`), "filter[0].op:required"},
		"filters":         {hookBody(agentID, "github", key, `"filter":[`+strings.Repeat(`{"path":"a","op":"exists"},`, 20)+`{"path":"a","op":"exists"}]`), "filter:too_long"},
		"window":          {hookBody(agentID, "github", key, `"coalesce":{"key":"k","windowSeconds":0,"maxWaitSeconds":3601}`), "coalesce.windowSeconds:invalid_value coalesce.maxWaitSeconds:invalid_value"},
		"wait":            {hookBody(agentID, "github", key, `"coalesce":{"key":"{{}}","windowSeconds":9,"maxWaitSeconds":8}`), "coalesce.maxWaitSeconds:invalid_value coalesce.key:invalid_value"},
		"GitHub's header": {hookBody(agentID, "github", key, `"signatureHeader":"X-Sig"`), "signatureHeader:invalid_value"},
		"bad header":      {hookBody(agentID, "hmac", key, `"signatureHeader":"X Sig","deliveryIdHeader":"é"`), "signatureHeader:invalid_value deliveryIdHeader:invalid_value"},
		"no header":       {hookBody(agentID, "token", key, `"signatureHeader":""`), "signatureHeader:invalid_value"},
		"short secret":    {`{"name":"n","agentId":"a","messageTemplate":"m","source":"github","secret":"abc",` + key + `}`, "secret:too_short"},
		"short token":     {`{"name":"n","agentId":"a","messageTemplate":"m","source":"token","secret":"fifteen letters",` + key + `}`, "secret:too_short"},
		"bad secret":      {`{"name":"n","agentId":"a","messageTemplate":"m","source":"standard","secret":"whsec_abc",` + key + `}`, "secret:invalid_value"},
		"id":              {hookBody(agentID, "github", key, `"id":"hook_x"`), "id:unknown_field"},
		"no agent":        {hookBody(id.New(id.Agent), "github", key), "agentId:invalid_value"},
		"another's agent": {hookBody(a.newAgent(away), "github", key), "agentId:invalid_value"},
	} {
		if c.problems == "" {
			continue
		}
		a.from("POST", "/api/hooks", c.body, h.owner.auth, h.header).want(t, what, 400, "invalid_request "+c.problems)
	}
	hookID := a.newHook(h, "hmac")
	for body, problems := range map[string]string{
		`{"secret":"another"}`:                   "secret:invalid_value",
		`{"agentId":"` + a.newAgent(away) + `"}`: "agentId:invalid_value",
		`{"source":"github"}`:                    "source:invalid_value",
		`{"signatureHeader":""}`:                 "signatureHeader:invalid_value",
		`{"id":"` + id.New(id.Hook) + `"}`:       "id:invalid_value",
		`{"messageTemplate":"{{","name":null}`:   "name:invalid_type messageTemplate:invalid_value",
	} {
		a.from("PUT", "/api/hooks?id="+hookID, body, h.key).want(t, body, 400, "invalid_request "+problems)
	}
	for target, c := range map[string]struct{ body, problems string }{
		"/api/hooks?id=" + hookID:                    {`{}`, "action:required"},
		"/api/hooks?action=delete&id=" + hookID:      {`{}`, "action:invalid_value"},
		"/api/hooks?action=rotate":                   {``, "id:required"},
		"/api/hooks?action=rotate&id=" + hookID:      {`{"keepSeconds":604801}`, "keepSeconds:invalid_value"},
		"/api/hooks?id=" + hookID + "&action=rotate": {`{"secret":"a\u0007bcdef and so on"}`, "secret:invalid_value"},
		"/api/hooks?action=test&id=" + hookID:        {`{"event":""}`, "event:too_short"},
		"/api/hooks/deliveries?action=redeliver":     {``, "id:required"},
	} {
		a.from("POST", target, c.body, h.key).want(t, target, 400, "invalid_request "+c.problems)
	}
	for target, problems := range map[string]string{
		"/api/hooks?limit=0": "limit:invalid_value", "/api/hooks/deliveries?status=lost": "status:invalid_value",
		"/api/hooks/deliveries?cursor=" + base64.RawURLEncoding.EncodeToString([]byte("x")): "cursor:invalid_value",
	} {
		a.from("GET", target, "", h.key).want(t, target, 400, "invalid_request "+problems)
	}
	a.from("DELETE", "/api/hooks", "", h.key).want(t, "deleting nothing", 400, "invalid_request id:required")
	for method, target := range map[string]string{"POST": "/api/hooks?action=rotate&id=" + hookID, "PUT": "/api/hooks?id=" + hookID} {
		large := `{"name":"` + strings.Repeat("x", httpx.MaxBody) + `"}`
		a.from(method, target, large, h.key).want(t, method+" too large", 413, "payload_too_large")
		a.from(method, target, "x", h.key, "Content-Type: text/plain").want(t, method+" of text", 415, "unsupported_media_type")
	}
}

// A route without a body rejects a body that is not JSON.
func TestUnusedBodiesMustBeJSON(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	runID, hookID := a.newChat(h, a.newAgent(h), "s", h.key), a.newHook(h, "github")
	a.deliver(hookID, "github", "one", "push", `{}`).want(t, "a delivery", 202, "")
	away := a.newTestOrg("away")
	invited := a.ok("POST", "/api/organizations/members", `{"email":"`+h.owner.email+`","role":"member"}`, away.owner.auth, away.header).text(t, "id")
	for target, credential := range map[string]string{
		"/api/runs?action=cancel&id=" + runID:                            h.key,
		"/api/hooks/deliveries?action=redeliver&id=one&hookId=" + hookID: h.key,
		"/api/auth/invitations?action=decline&id=" + invited:             h.owner.auth,
	} {
		a.from("POST", target, "x", credential, "Content-Type: text/plain").want(t, target, 415, "unsupported_media_type")
	}
}

// The number of hooks of an organization is limited.
func TestHooksAreLimited(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	a.api.hooks.MaxHooks = 1
	a.newHook(h, "github")
	a.from("POST", "/api/hooks", hookBody(a.newAgent(h), "github"), h.key).want(t, "one more", 409, "conflict")
}

// While two secrets are valid, deliveries signed with either of them are accepted.
func TestHookSecretsRotate(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "github")
	send := func(what string, status int) {
		t.Helper()
		code := ""
		if status == 401 {
			code = "unauthenticated"
		}
		a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`).want(t, what, status, code)
	}
	rotated := a.ok("POST", "/api/hooks?action=rotate&id="+hookID, "", h.key)
	if len(rotated.text(t, "secret")) != 64 || rotated.json(t, "previousSecretUntil") == nil {
		t.Errorf("rotated: %s", rotated.body)
	}
	send("by the secret before", 202)
	if got := a.ok("POST", "/api/hooks?action=test&id="+hookID, "", h.key); got.status != 202 || got.text(t, "status") != "accepted" {
		t.Errorf("with the new key: %s", got.body)
	}
	if again := a.ok("POST", "/api/hooks?action=rotate&id="+hookID, `{"secret":"one of my own","keepSeconds":0}`, h.key); again.text(t, "secret") != "***" ||
		again.json(t, "previousSecretUntil") != nil {
		t.Errorf("rotated again: %s", again.body)
	}
	send("by the secret before the last", 401)
	a.ok("POST", "/api/hooks?action=rotate&id="+hookID, `{"secret":"`+hookSecret+`"}`, h.key)
	send("by the secret that it is again", 202)
}

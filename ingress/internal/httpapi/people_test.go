package httpapi

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/alexedwards/argon2id"

	"parley/shared/domain"
)

// loginFrom tries to log in with a password from a client address.
func (w *testEnv) loginFrom(email, password, address string) answer {
	w.t.Helper()
	req := httptest.NewRequestWithContext(w.t.Context(), "POST", "/api/auth/login", strings.NewReader(`{"email":"`+email+`","password":"`+password+`"}`))
	req.RemoteAddr = "10.0.0.1:99"
	req.Header.Set("X-Forwarded-For", address)
	req.Header.Set("Content-Type", "application/json")
	return w.send(req)
}

const (
	home      = "198.51.100.7"
	elsewhere = "203.0.113.9"
)

func TestWrongPasswordsAreLimited(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	for range 30 {
		w.loginFrom("Ada@example.com", "wrong", elsewhere).want(t, "wrong password", 401, "unauthenticated")
	}
	limited := w.loginFrom("ada@example.com", password, elsewhere).want(t, "31st try of the stranger", 429, "rate_limited")
	if limited.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.loginFrom(ada.email, password, home).want(t, "the right person elsewhere", 200, "")
	w.loginFrom(bea.email, password, elsewhere).want(t, "another account from the stranger's address", 200, "")
	w.do("GET", "/api/auth/session", "", ada.auth).want(t, "a session that is logged in", 200, "")
}

func TestAnAccountIsLimitedOverAllAddresses(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	w.loginFrom(ada.email, password, home).want(t, "logging in", 200, "")
	for range 1000 {
		w.api.account.Logins.Account.Begin(ada.email)
	}
	w.loginFrom(ada.email, password, elsewhere).want(t, "an address without a session of the account", 429, "rate_limited")
	w.loginFrom(ada.email, password, home).want(t, "an address with one", 200, "")
}

// TestAddressesAreLimitedOverAllAccounts checks that one client address cannot try a password on
// every account.
func TestAddressesAreLimitedOverAllAccounts(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	for range 300 {
		w.api.account.Logins.Address.Begin(elsewhere)
	}
	w.loginFrom(ada.email, password, elsewhere).want(t, "the address", 429, "rate_limited")
	w.loginFrom(ada.email, password, home).want(t, "another address", 200, "")
}

// TestPasswordsAreNormalized logs in with a password for which two keyboards send different
// characters.
func TestPasswordsAreNormalized(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	const composed, decomposed = "caf\u00e9 au lait", "cafe\u0301\u00a0au lait" // the second form also has a no-break space
	signUp := func(email, password string) answer {
		return w.do("POST", "/api/auth/signup", `{"email":"`+email+`","password":"`+password+`"}`)
	}
	signUp("ada@example.com", decomposed).want(t, "signing up", 201, "")
	for name, typed := range map[string]string{"as typed": decomposed, "composed": composed} {
		w.loginFrom("ada@example.com", typed, home).want(t, name, 200, "")
	}
	w.loginFrom("ada@example.com", "cafe au lait", home).want(t, "without accents", 401, "unauthenticated")
	for name, wrong := range map[string]string{"a control character": `long\u0007enough`, "a line feed": `long\nenough`, "no character": "long enough\u0378"} {
		signUp("bea@example.com", wrong).want(t, name, 400, "invalid_request password:invalid_value")
	}
	signUp("bea@example.com", strings.Repeat("e\u0301", 4)).want(t, "four characters of two code points", 400, "invalid_request password:too_short")

	cleo := w.signUp("cleo@example.com")
	older, err := argon2id.CreateHash(decomposed, &cheapPasswords)
	must(t, err)
	w.passwordFor(cleo, older)
	w.loginFrom(cleo.email, decomposed, home).want(t, "a hash of the password as it was typed", 200, "")
}

// TestPasswordsHaveTheirFullCost checks the cost of the hashes that the service stores, because the
// other tests use cheaper hashes.
func TestPasswordsHaveTheirFullCost(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	var err error
	w.handler, err = New(w.deps)
	must(t, err)
	hash := w.passwordFor(w.signUp("ada@example.com"), "")
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("a password is stored as %s", hash)
	}
}

func TestNamesAndAddressesHaveNoHiddenCharacters(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	hidden := map[string]string{
		"zero-width space": `A\u200bda`, "right-to-left override": `Ada\u202eadm`, "isolate": `A\u2066da`, "escape": `A\u001b[31mda`,
		"carriage return": `A\rda`, "line feed": `A\nda`, "line separator": `A\u2028da`, "soft hyphen": `A\u00adda`, "byte order mark": `\ufeffAda`,
		"joiner between Latin letters": `A\u200dda`, "Hangul filler": `A\u3164da`, "variation selector": `A\ufe0fda`, "tag": `Ada\udb40\udc41`,
		"private use": `A\ue000da`, "no-break space": `A\u00a0da`,
	}
	for what, text := range hidden {
		for route, c := range map[string]struct{ body, field string }{
			"/api/auth/signup":           {`{"email":"new@example.com","password":"long enough","name":"` + text + `"}`, "name"},
			"/api/organizations":         {`{"name":"` + text + `"}`, "name"},
			"/api/keys":                  {`{"name":"` + text + `","scope":"user"}`, "name"},
			"/api/agents":                {`{"name":"` + text + `","systemPrompt":"p"}`, "name"},
			"/api/organizations/members": {`{"email":"` + text + `@example.com","role":"member"}`, "email"},
			"/api/knowledge":             {`{"name":"` + text + `","content":"c"}`, "name"},
			"/api/knowledge?":            {`{"url":"https://example.com/` + text + `"}`, "url"},
			"/api/notifications":         {`{"url":"https://` + text + `.example.com/","events":["run.failed"]}`, "url"},
		} {
			a := w.do("POST", route, c.body, ada.auth)
			if a.status != 400 || a.problems(t) != "invalid_request "+c.field+":invalid_value" {
				t.Errorf("%s with %s: %d %s", route, what, a.status, a.body)
			}
		}
		w.do("PUT", "/api/organizations?id="+ada.org, `{"name":"`+text+`"}`, ada.auth).want(t, "renaming with "+what, 400, "invalid_request name:invalid_value")
		w.do("POST", "/api/auth/signup", `{"email":"`+text+`@example.com","password":"long enough"}`).want(t, "signing up with "+what, 400, "invalid_request email:invalid_value")
	}
	for n, shown := range []string{"Ada Lovelace", "Zoë O’Neil-Łukasz 3.", "山田　太郎", "علی\u200cرضا", "क्\u200dष", "👩\u200d💻 Team ❤️", "1️⃣ Ops", "D\u0302"} {
		w.do("POST", "/api/organizations", `{"name":"`+shown+`"}`, ada.auth).want(t, "name "+string(rune('0'+n)), 201, "")
	}
	describe := func(text string) answer {
		return w.do("POST", "/api/agents", `{"name":"n","systemPrompt":"p","description":"`+text+`"}`, ada.auth)
	}
	describe(`Lamps.\r\n\n\tAll of them. علی\u200cرضا`).want(t, "a description of several lines", 201, "")
	for _, text := range []string{`a\u202eb`, `a\u001b[31mb`, `a\rb`} {
		describe(text).want(t, "a description that hides something", 400, "invalid_request description:invalid_value")
	}
}

// Every endpoint rejects a name that consists of white space.
func TestNoNameIsBlank(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	key, keyID := w.key(ada, domain.KeyScopeOrganization)
	agentID := w.agent(ada, smallAgent)
	hook := `"keyId":"` + keyID + `","agentId":"` + agentID + `","source":"github","messageTemplate":"m"`
	hookID := w.do("POST", "/api/hooks", `{"name":"h",`+hook+`}`, key).want(t, "hook", 201, "").text(t, "id")
	documentID := w.do("POST", "/api/knowledge", `{"name":"d","content":"c"}`, ada.auth).want(t, "document", 202, "").text(t, "id")
	for _, blank := range []string{" ", "   ", "\u3000", " \u3000 ", "\u00a0", "\u2003", "\u202f", "\u205f", "\u1680"} {
		for _, c := range []struct{ method, target, body string }{
			{"POST", "/api/auth/signup", `{"email":"new@example.com","password":"long enough","name":"` + blank + `"}`},
			{"POST", "/api/auth/accept", `{"token":"t","password":"long enough","name":"` + blank + `"}`},
			{"POST", "/api/organizations", `{"name":"` + blank + `"}`},
			{"PUT", "/api/organizations?id=" + ada.org, `{"name":"` + blank + `"}`},
			{"POST", "/api/keys", `{"name":"` + blank + `","scope":"user"}`},
			{"POST", "/api/agents", `{"name":"` + blank + `","systemPrompt":"p"}`},
			{"POST", "/api/agents", `{"name":"` + blank + `","templateId":"tpl_support"}`},
			{"PUT", "/api/agents?id=" + agentID, `{"name":"` + blank + `"}`},
			{"POST", "/api/hooks", `{"name":"` + blank + `",` + hook + `}`},
			{"PUT", "/api/hooks?id=" + hookID, `{"name":"` + blank + `"}`},
			{"POST", "/api/knowledge", `{"content":"c","name":"` + blank + `"}`},
			{"PUT", "/api/knowledge?id=" + documentID, `{"name":"` + blank + `"}`},
		} {
			w.do(c.method, c.target, c.body, ada.auth).want(t, fmt.Sprintf("%s %s %+q", c.method, c.target, blank), 400, "invalid_request name:invalid_value")
		}
		for field, a := range map[string]answer{
			"subjectId":   w.do("POST", "/api/budgets", `{"scope":"automation","subjectId":"`+blank+`","metric":"runs","period":"month","limit":1}`, ada.auth),
			"description": w.do("POST", "/api/notifications", `{"url":"https://example.com","events":["run.failed"],"description":"`+blank+`"}`, ada.auth),
			"x-automation-id": w.do("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"}}`,
				key, "X-Automation-Id: "+blank),
		} {
			a.want(t, fmt.Sprintf("%s %+q", field, blank), 400, "invalid_request "+field+":invalid_value")
		}
		body, contentType := formFor(t, filePart{name: "file", file: blank, content: "c"})
		w.do("POST", "/api/knowledge", string(body), ada.auth, "Content-Type: "+contentType).
			want(t, fmt.Sprintf("form %+q", blank), 400, "invalid_request file[0]:invalid_value")
	}
}

// Every endpoint rejects session ids and idempotency keys that are blank or contain hidden
// characters.
func TestSessionIDsAndKeysHaveNoHiddenCharacters(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	const automation, chat = "/api/internal/run-automation", "/api/agents?action=chat&id="
	target, completion := `{"target":"`+agentID+`","input":{"message":"m"}`, `{"model":"`+agentID+`","messages":[{"role":"user","content":"m"}]`
	response, message := `{"model":"`+agentID+`","input":"m"`, `"messages":[{"role":"user","content":"m"}]`
	for _, text := range []string{`a\u200bb`, `a\u202eb`, `a\nb`, `a\u00a0b`, ` `, `\u3000`} {
		for field, c := range map[string]struct{ path, body string }{
			"sessionId":            {chat + agentID, `{"message":"m","sessionId":"` + text + `"}`},
			"sessionId ":           {automation, target + `,"sessionId":"` + text + `"}`},
			"idempotencyKey":       {automation, target + `,"idempotencyKey":"` + text + `"}`},
			"id":                   {chat + agentID + "&format=ai-sdk", `{` + `"messages":[{"role":"user","parts":[{"type":"text","text":"m"}]}],"id":"` + text + `"}`},
			"threadId":             {chat + agentID + "&format=ag-ui", `{` + message + `,"runId":"r","threadId":"` + text + `"}`},
			"metadata.session_id":  {"/v1/chat/completions", completion + `,"metadata":{"session_id":"` + text + `"}}`},
			"metadata.session_id ": {"/v1/responses", response + `,"metadata":{"session_id":"` + text + `"}}`},
			"conversation":         {"/v1/responses", response + `,"conversation":"` + text + `"}`},
			"conversation.id":      {"/v1/responses", response + `,"conversation":{"id":"` + text + `"}}`},
		} {
			want := "invalid_request " + strings.TrimSpace(field)
			if !strings.HasPrefix(c.path, "/v1/") {
				want += ":invalid_value"
			}
			a.from("POST", c.path, c.body, h.key).want(t, field+" "+text, 400, want)
		}
	}
	for _, text := range []string{"a\u200bb", "a\u202eb", "a\u00a0b", "\u3000"} {
		header, query := "Idempotency-Key: "+text, "session_id="+url.QueryEscape(text)
		a.from("POST", chat+agentID, `{"message":"m","sessionId":"s"}`, h.key, header).want(t, "chat", 400, "invalid_request Idempotency-Key:invalid_value")
		a.from("POST", automation, target+`}`, h.key, header).want(t, "automation", 400, "invalid_request Idempotency-Key:invalid_value")
		a.from("POST", "/v1/chat/completions", completion+`}`, h.key, header).want(t, "completion", 400, "invalid_request Idempotency-Key")
		a.from("POST", "/v1/responses", response+`}`, h.key, header).want(t, "response", 400, "invalid_request Idempotency-Key")
		a.from("POST", "/v1/realtime/client_secrets?"+query, `{"session":{"model":"`+agentID+`"}}`, h.key).want(t, "secret", 400, "invalid_request session_id")
		a.from("GET", "/v1/realtime?model="+agentID+"&"+query, "", upgrading(h.key)...).want(t, "voice", 400, "invalid_request session_id")
	}
}

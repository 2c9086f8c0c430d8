package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/ingress/internal/auth"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/testkit"
)

// logInFrom logs in with the given User-Agent, from a client address that a proxy reports. It
// returns a header with the session's token.
func (w *testEnv) logInFrom(email, agent, address string) string {
	w.t.Helper()
	req := httptest.NewRequestWithContext(w.t.Context(), "POST", "/api/auth/login", strings.NewReader(`{"email":"`+email+`","password":"`+password+`"}`))
	req.RemoteAddr = "10.0.0.1:99"
	req.Header.Set("X-Forwarded-For", address)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", agent)
	return "Authorization: Bearer " + w.send(req).want(w.t, "logging in", 200, "").text(w.t, "token")
}

func TestLoginSessions(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	key, _ := w.key(ada, domain.KeyScopeUser)
	at := "X-Organization-Id: " + ada.org
	phone := w.logInFrom(ada.email, "Phone/1.0 \xff\x01(very good)"+strings.Repeat("x", 400), "198.51.100.7")
	tablet := w.logInFrom(ada.email, "Tablet", "2001:db8::1")
	a := w.do("GET", "/api/auth/sessions", "", phone).want(t, "listing", 200, "")
	if a.text(t, "data.0.address") != "2001:db8::1" || a.text(t, "data.0.userAgent") != "Tablet" || a.json(t, "data.0.current") != false ||
		a.text(t, "data.1.address") != "198.51.100.7" || a.json(t, "data.1.current") != true || a.json(t, "data.2.current") != false ||
		!id.Valid(id.Login, a.text(t, "data.0.id")) || a.text(t, "data.0.expiresAt") == "" || a.text(t, "data.0.createdAt") == "" || a.json(t, "data.3") != nil {
		t.Errorf("sessions %s", a.body)
	}
	if agent := a.text(t, "data.1.userAgent"); !strings.HasPrefix(agent, "Phone/1.0 (very good)xxx") || len(agent) != 256 {
		t.Errorf("browser of %d characters: %q", len(agent), agent)
	}
	if strings.Contains(string(a.body), "ps_") || strings.Contains(string(a.body), "hash") {
		t.Errorf("sessions %s", a.body)
	}
	first := w.do("GET", "/api/auth/sessions?limit=2", "", phone)
	rest := w.do("GET", "/api/auth/sessions?limit=2&cursor="+first.text(t, "nextCursor"), "", phone).want(t, "second page", 200, "")
	if rest.text(t, "data.0.id") != a.text(t, "data.2.id") || rest.json(t, "hasMore") != false {
		t.Errorf("pages %s and %s", first.body, rest.body)
	}
	w.do("GET", "/api/auth/sessions", "", key, at).want(t, "a key's", 403, "permission_denied")
	w.do("DELETE", "/api/auth/sessions?id="+a.text(t, "data.0.id"), "", key, at).want(t, "by a key", 403, "permission_denied")
	w.do("POST", "/api/auth/logout?everywhere=1", "", key, at).want(t, "everywhere, by a key", 403, "permission_denied")
	beas := w.do("GET", "/api/auth/sessions", "", bea.auth).text(t, "data.0.id")
	for name, c := range map[string]struct{ id, problems string }{
		"another's": {beas, "not_found"}, "unknown": {id.New(id.Login), "not_found"}, "another kind": {ada.id, "not_found"}, "malformed": {"ls_x", "not_found"},
	} {
		w.do("DELETE", "/api/auth/sessions?id="+c.id, "", phone).want(t, name, 404, c.problems)
	}
	w.do("DELETE", "/api/auth/sessions", "", phone).want(t, "no id", 400, "invalid_request id:required")
	tabletID := a.text(t, "data.0.id")
	gone := w.do("DELETE", "/api/auth/sessions?id="+tabletID, "", phone).want(t, "ending one", 200, "")
	if string(gone.body) != `{"id":"`+tabletID+`","deleted":true}` || gone.header.Get("Set-Cookie") != "" {
		t.Errorf("answer %s with %v", gone.body, gone.header)
	}
	w.do("GET", "/api/auth/session", "", tablet).want(t, "the ended one", 401, "unauthenticated")
	w.do("DELETE", "/api/auth/sessions?id="+tabletID, "", phone).want(t, "ending it again", 404, "not_found")
	own := w.do("DELETE", "/api/auth/sessions?id="+a.text(t, "data.2.id"), "", ada.cookie).want(t, "ending one's own", 200, "")
	if !strings.Contains(own.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("the cookie of an ended session stays: %v", own.header)
	}
}

func TestLoggingOutEverywhere(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	phone := w.logInFrom(ada.email, "Phone", "198.51.100.7")
	for _, value := range []string{"0", "", "yes", "1&everywhere=1"} {
		if a := w.do("POST", "/api/auth/logout?everywhere="+value, "", phone); a.status != 400 {
			t.Errorf("everywhere=%s: %d", value, a.status)
		}
	}
	w.do("GET", "/api/auth/session", "", phone).want(t, "before", 200, "")
	w.do("POST", "/api/auth/logout?everywhere=1", "", ada.cookie).want(t, "everywhere", 204, "")
	for name, header := range map[string]string{"this one": ada.auth, "the other": phone} {
		w.do("GET", "/api/auth/session", "", header).want(t, name, 401, "unauthenticated")
	}
	w.do("GET", "/api/auth/session", "", bea.auth).want(t, "somebody else", 200, "")
}

func TestLastUseOfLoginsIsRecorded(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		at := w.do("GET", "/api/auth/sessions", "", ada.auth).want(t, "listing", 200, "").text(t, "data.0.lastUsedAt")
		if at != "" {
			if used, err := time.Parse(time.RFC3339, at); err != nil || used.Before(began.Add(-time.Second)) || used.After(time.Now()) {
				t.Errorf("used at %s, %v", at, err)
			}
			return
		}
		if testkit.Late(began, 10*time.Second) {
			t.Fatal("no use is recorded")
		}
		<-tick.C
	}
}

// TestAFloodOfLogins sends logins faster than passwords can be checked. Some of them succeed. The
// others are rejected immediately with a Retry-After, so that no login waits long.
func TestAFloodOfLogins(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	w.api.account.Passwords = auth.NewPasswords(1, auth.PasswordCost)
	const callers = 200
	answers := make(chan answer, callers)
	var wg sync.WaitGroup
	for n := range callers {
		wg.Go(func() {
			answers <- w.do("POST", "/api/auth/login", `{"email":"nobody`+strconv.Itoa(n)+`@example.com","password":"wrong"}`)
		})
	}
	wg.Wait()
	counts := map[int]int{}
	for range callers {
		a := <-answers
		counts[a.status]++
		if a.status == http.StatusServiceUnavailable && (a.header.Get("Retry-After") == "" || a.problems(t) != string(apierr.Overloaded)) {
			t.Errorf("refusal %s without Retry-After", a.body)
		}
	}
	if counts[http.StatusUnauthorized] == 0 || counts[http.StatusServiceUnavailable] == 0 ||
		counts[http.StatusUnauthorized]+counts[http.StatusServiceUnavailable] != callers {
		t.Errorf("answers %v", counts)
	}
}

// TestLoginsOfOneAddressDoNotBlockOthers sends logins with correct passwords from one client
// address, more than can wait. Then a login from another address gets a place, and its response
// before the last login of the flood.
func TestLoginsOfOneAddressDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	w.api.account.Passwords = auth.NewPasswords(1, auth.PasswordCost)
	const accounts, each = 8, 25 // each account may have 30 attempts at a time from an address
	victim := w.signUp("victim@example.com")
	var emails []string
	for n := range accounts {
		emails = append(emails, w.signUp("flood"+strconv.Itoa(n)+"@example.com").email)
	}

	answers := make(chan answer, accounts*each)
	var wg sync.WaitGroup
	for n := range accounts * each {
		wg.Go(func() {
			answers <- w.do("POST", "/api/auth/login", `{"email":"`+emails[n%accounts]+`","password":"`+password+`"}`)
		})
	}
	answered, refused := 0, false
	for !refused && answered < accounts*each { // a refusal shows that the queue is full
		got := <-answers
		answered++
		refused = got.status == http.StatusServiceUnavailable
	}
	w.logInFrom(victim.email, "Phone", "198.51.100.7")
	if left := accounts*each - answered - len(answers); !refused || left == 0 {
		t.Errorf("refused %t, %d logins of the flood left after the other address's login", refused, left)
	}
	wg.Wait()
}

package httpapi

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/ingress/internal/auth"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
)

func accepting(token, more string) string { return `{"token":"` + token + `"` + more + `}` }

const (
	withPassword = `,"password":"` + password + `"`
	newPassword  = "another horse battery"
)

func TestInvitationsOfNewPeople(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	stale := w.add(ada, ada.org, "new@example.com", domain.RoleMember).token(t)
	token := w.add(ada, ada.org, "New@example.com", domain.RoleAdmin).want(t, "inviting again", 201, "").token(t)
	for name, c := range map[string]struct {
		body, problems string
		status         int
	}{
		"nothing":          {`{}`, "invalid_request token:required", 400},
		"wrong":            {accepting(token, `,"name":"","password":""`), "invalid_request name:too_short password:too_short", 400},
		"no password":      {accepting(token, ""), "invalid_request password:required", 400},
		"short password":   {accepting(token, `,"password":"1234567"`), "invalid_request password:too_short", 400},
		"own role":         {accepting(token, withPassword+`,"role":"owner"`), "invalid_request role:unknown_field", 400},
		"the link before":  {accepting(stale, withPassword), "not_found", 404},
		"unknown":          {accepting(secrets.NewInvitationToken(), withPassword), "not_found", 404},
		"malformed":        {accepting("pi_x", withPassword), "not_found", 404},
		"of another kind":  {accepting(secrets.NewResetToken(), withPassword), "not_found", 404},
		"a session's":      {accepting(ada.token, withPassword), "not_found", 404},
		"token of no text": {`{"token":7}`, "invalid_request token:invalid_type", 400},
	} {
		w.do("POST", "/api/auth/accept", c.body).want(t, name, c.status, c.problems)
	}
	w.do("POST", "/api/auth/accept", accepting(token, withPassword), "Sec-Fetch-Site: cross-site").want(t, "from another site", 403, "permission_denied")
	w.do("POST", "/api/auth/accept", accepting(token, withPassword), "Authorization: Bearer "+secrets.NewSessionToken()).
		want(t, "with a broken session", 401, "unauthenticated")

	a := w.do("POST", "/api/auth/accept", accepting(token, withPassword+`,"name":"Nell"`), "Cookie: "+auth.CookieName+"="+secrets.NewSessionToken()).
		want(t, "accepting, with a stale cookie", 201, "")
	if a.text(t, "user.email") != "New@example.com" || a.text(t, "user.name") != "Nell" || a.text(t, "organization.id") != ada.org ||
		!strings.HasPrefix(a.text(t, "token"), "ps_") || a.text(t, "expiresAt") == "" || !strings.HasPrefix(a.header.Get("Set-Cookie"), auth.CookieName+"=ps_") {
		t.Errorf("accepted %s", a.body)
	}
	w.do("POST", "/api/auth/accept", accepting(token, withPassword)).want(t, "accepting twice", 404, "not_found")
	bearer := "Authorization: Bearer " + a.text(t, "token")
	session := w.do("GET", "/api/auth/session", "", bearer).want(t, "session", 200, "")
	if session.text(t, "organization.id") != ada.org || session.text(t, "caller.role") != "admin" ||
		session.text(t, "organizations.1.name") != "Nell's organization" || session.text(t, "organizations.1.role") != "owner" {
		t.Errorf("session %s", session.body)
	}
	w.do("POST", "/api/auth/login", `{"email":"new@example.com","password":"`+password+`"}`).want(t, "logging in", 200, "")
	if members := string(w.do("GET", "/api/organizations/members", "", ada.auth).body); strings.Contains(members, "invited") {
		t.Errorf("members %s", members)
	}
}

func TestInvitationsOfKnownPeople(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	invite := func(email string) string {
		return w.add(ada, ada.org, email, domain.RoleMember).want(t, "inviting", 201, "").token(t)
	}
	byPassword, bySession := invite("bea@example.com"), invite("cleo@example.com")
	bea, cleo := w.signUp("bea@example.com"), w.signUp("cleo@example.com")
	w.do("POST", "/api/auth/accept", accepting(byPassword, `,"password":"wrong"`)).want(t, "wrong password, too short for a new one", 400, "invalid_request password:too_short")
	w.do("POST", "/api/auth/accept", accepting(byPassword, ""), ada.auth).want(t, "another's session", 400, "invalid_request password:required")
	a := w.do("POST", "/api/auth/accept", accepting(byPassword, withPassword)).want(t, "own password", 201, "")
	if a.text(t, "user.id") != bea.id || a.text(t, "organization.id") != ada.org {
		t.Errorf("accepted %s", a.body)
	}
	if s := w.do("GET", "/api/auth/session", "", bea.auth); s.text(t, "organization.id") != bea.org || s.text(t, "organizations.1.id") != ada.org {
		t.Errorf("session %s", s.body)
	}
	a = w.do("POST", "/api/auth/accept", accepting(bySession, ""), cleo.cookie).want(t, "own session", 201, "")
	if a.text(t, "user.id") != cleo.id || a.text(t, "token") == cleo.token {
		t.Errorf("accepted %s", a.body)
	}
	w.do("GET", "/api/auth/session", "", cleo.auth).want(t, "the session that was replaced", 401, "unauthenticated")
	w.do("GET", "/api/agents", "", "Authorization: Bearer "+a.text(t, "token"), "X-Organization-Id: "+ada.org).want(t, "acting", 200, "")

	// A new invitation to an address replaces the earlier one.
	late := invite("dan@example.com")
	dan := w.signUp("dan@example.com")
	w.admit(ada, ada.org, dan, domain.RoleMember)
	w.do("POST", "/api/auth/accept", accepting(late, withPassword)).want(t, "the link before", 404, "not_found")

	once := invite("eve@example.com")
	statuses := make(chan int, 5)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { statuses <- w.do("POST", "/api/auth/accept", accepting(once, withPassword)).status })
	}
	wg.Wait()
	counts := map[int]int{}
	for range 5 {
		counts[<-statuses]++
	}
	if counts[http.StatusCreated] != 1 || counts[http.StatusNotFound]+counts[http.StatusConflict] != 4 {
		t.Errorf("accepting five times concurrently: %v", counts)
	}
	w.exec(`UPDATE invitations SET expires_at = clock_timestamp()`)
	w.do("POST", "/api/auth/accept", accepting(invite("fay@example.com"), withPassword)).want(t, "in time", 201, "")
	expired := invite("gus@example.com")
	w.exec(`UPDATE invitations SET expires_at = clock_timestamp()`)
	w.do("POST", "/api/auth/accept", accepting(expired, withPassword)).want(t, "too late", 404, "not_found")
}

// only deletes the memberships of the person p in all organizations except the organization org.
func (w *testEnv) only(p person, org string) {
	w.t.Helper()
	w.exec(`DELETE FROM memberships WHERE user_id = $1 AND org_id <> $2`, p.id, org)
	w.api.Auth.ForgetUser(p.id)
}

const agentBody = `{"name":"a","systemPrompt":"p"}`

// invited returns a person whose account was created with an invitation. The field org is the
// person's own organization.
func (w *testEnv) invited(by person, org, email string, role domain.Role) person {
	w.t.Helper()
	token := w.add(by, org, email, role).want(w.t, "inviting", 201, "").token(w.t)
	a := w.do("POST", "/api/auth/accept", accepting(token, withPassword)).want(w.t, "accepting", 201, "")
	p := person{id: a.text(w.t, "user.id"), email: email}
	p.carry(a.text(w.t, "token"))
	p.org = w.do("GET", "/api/auth/session", "", p.auth).want(w.t, "session", 200, "").text(w.t, "organizations.1.id")
	return p
}

func TestWhoMayReset(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, eve, gus := w.signUp("ada@example.com"), w.signUp("eve@example.com"), w.signUp("gus@example.com")
	invited := func(name string, role domain.Role) person { return w.invited(ada, ada.org, name+"@example.com", role) }
	bea, cleo, dan, fay := invited("bea", domain.RoleAdmin), invited("cleo", domain.RoleMember), invited("dan", domain.RoleMember),
		invited("fay", domain.RoleOwner)
	hal := w.invited(eve, eve.org, "hal@example.com", domain.RoleMember)
	orgKey, _ := w.key(ada, domain.KeyScopeOrganization)
	for _, known := range []person{gus, hal} { // existing users, whom the owner makes members
		w.admit(ada, ada.org, known, domain.RoleMember)
	}
	w.only(gus, ada.org)
	w.only(hal, ada.org)
	w.do("POST", "/api/agents", agentBody, dan.auth, "X-Organization-Id: "+dan.org).want(t, "something of one's own", 201, "")
	at := "X-Organization-Id: " + ada.org
	for name, c := range map[string]struct {
		id, problems string
		who          []string
		status       int
	}{
		"admin, member":            {cleo.id, "", []string{bea.auth, at}, 201},
		"admin, admin":             {bea.id, "", []string{bea.auth, at}, 201},
		"admin, owner":             {fay.id, "permission_denied", []string{bea.auth, at}, 403},
		"owner, owner":             {fay.id, "", []string{ada.auth}, 201},
		"owner, themselves":        {ada.id, "permission_denied", []string{ada.auth}, 403},
		"owner, added person":      {gus.id, "permission_denied", []string{ada.auth}, 403},
		"owner, another's invited": {hal.id, "permission_denied", []string{ada.auth}, 403},
		"key, member":              {cleo.id, "", []string{orgKey}, 201},
		"key, owner":               {fay.id, "permission_denied", []string{orgKey}, 403},
		"member":                   {cleo.id, "permission_denied", []string{cleo.auth, at}, 403},
		"owner, somebody's member": {dan.id, "permission_denied", []string{ada.auth}, 403},
		"owner, stranger":          {eve.id, "not_found", []string{ada.auth}, 404},
		"owner, unknown":           {id.New(id.User), "not_found", []string{ada.auth}, 404},
		"owner, another kind":      {ada.org, "not_found", []string{ada.auth}, 404},
		"nobody":                   {cleo.id, "unauthenticated", nil, 401},
	} {
		a := w.do("POST", "/api/organizations/members?action=reset&id="+c.id, "", c.who...).want(t, name, c.status, c.problems)
		if c.status == 201 && (!strings.HasPrefix(a.text(t, "url"), "http://parley.test/reset?token=pr_") || a.text(t, "expiresAt") == "") {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	bea := w.invited(ada, ada.org, "bea@example.com", domain.RoleAdmin)
	reset := func() string {
		return w.do("POST", "/api/organizations/members?action=reset&id="+bea.id, "", ada.auth).want(t, "a link", 201, "").token(t)
	}
	setting := func(token string) string { return accepting(token, `,"password":"`+newPassword+`"`) }
	first, second := reset(), reset()
	for name, c := range map[string]struct {
		body, problems string
		status         int
	}{
		"nothing":        {`{}`, "invalid_request token:required password:required", 400},
		"short password": {accepting(first, `,"password":"x"`), "invalid_request password:too_short", 400},
		"unknown":        {setting(secrets.NewResetToken()), "not_found", 404},
		"malformed":      {setting("x"), "not_found", 404},
		"a login link's": {setting(secrets.NewLinkToken()), "not_found", 404},
	} {
		w.do("POST", "/api/auth/reset", c.body).want(t, name, c.status, c.problems)
	}
	link := secrets.NewLinkToken()
	must(t, w.store.Accounts.CreateLoginLink(t.Context(), bea.id, secrets.Hash(link), time.Now().Add(time.Hour)))
	a := w.do("POST", "/api/auth/reset", setting(first)).want(t, "setting", 200, "")
	if a.text(t, "user.id") != bea.id || a.text(t, "organization.id") != ada.org || a.header.Get("Set-Cookie") == "" {
		t.Errorf("answer %s", a.body)
	}
	w.do("GET", "/api/auth/session", "", "Authorization: Bearer "+a.text(t, "token")).want(t, "the new session", 200, "")
	w.do("GET", "/api/auth/session", "", bea.auth).want(t, "the session before", 401, "unauthenticated")
	w.do("POST", "/api/auth/reset", setting(first)).want(t, "the link again", 404, "not_found")
	w.do("POST", "/api/auth/reset", setting(second)).want(t, "another link", 404, "not_found")
	if got := w.do("GET", "/login?token="+link, ""); got.status != 410 {
		t.Errorf("the login link after a reset: %d", got.status)
	}
	w.do("POST", "/api/auth/login", `{"email":"bea@example.com","password":"`+password+`"}`).want(t, "the old password", 401, "unauthenticated")
	w.do("POST", "/api/auth/login", `{"email":"bea@example.com","password":"`+newPassword+`"}`).want(t, "the new password", 200, "")

	expired := reset()
	w.exec(`UPDATE login_links SET expires_at = clock_timestamp()`)
	w.do("POST", "/api/auth/reset", setting(expired)).want(t, "too late", 404, "not_found")
}

// TestResetLinksEndWithTheirPermission checks the permission to reset a password at the time when
// the link is used.
func TestResetLinksEndWithTheirPermission(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *testEnv, ada, bea, cleo person){
		"the person became an owner": func(w *testEnv, ada, _, cleo person) { w.add(ada, ada.org, cleo.email, domain.RoleOwner) },
		"the person uses what is their own": func(w *testEnv, _, _, cleo person) {
			w.do("POST", "/api/agents", agentBody, cleo.auth, "X-Organization-Id: "+cleo.org).want(w.t, "an agent", 201, "")
		},
		"the person belongs elsewhere, too": func(w *testEnv, _, bea, cleo person) { w.admit(bea, bea.org, cleo, domain.RoleMember) },
		"the account is said to be no invited one": func(w *testEnv, _, _, cleo person) {
			w.exec(`UPDATE users SET invited_to = NULL WHERE id = $1`, cleo.id)
		},
		"the person was moved": func(w *testEnv, _, bea, cleo person) {
			w.admit(bea, bea.org, cleo, domain.RoleMember)
			w.only(cleo, bea.org)
		},
		"its author is no longer an admin": func(w *testEnv, ada, bea, _ person) { w.add(ada, ada.org, bea.email, domain.RoleMember) },
		"its author was removed": func(w *testEnv, ada, bea, _ person) {
			w.do("DELETE", "/api/organizations/members?id="+bea.id, "", ada.auth).want(w.t, "removing", 200, "")
		},
		"nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t, manyRequests)
			ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
			w.admit(ada, ada.org, bea, domain.RoleAdmin)
			cleo := w.invited(ada, ada.org, "cleo@example.com", domain.RoleMember)
			link := w.do("POST", "/api/organizations/members?action=reset&id="+cleo.id, "", bea.auth, "X-Organization-Id: "+ada.org).want(t, "a link", 201, "")
			status, problems := 200, ""
			if change != nil {
				change(w, ada, bea, cleo)
				status, problems = 404, "not_found"
			}
			w.do("POST", "/api/auth/reset", accepting(link.token(t), `,"password":"`+newPassword+`"`)).want(t, "using it", status, problems)
		})
	}
}

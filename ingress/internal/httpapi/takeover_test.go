package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// wantKept fails the test unless an account that lost its address still has its session and
// password.
func (w *testEnv) wantKept(p person) {
	w.t.Helper()
	w.do("GET", "/api/agents", "", p.auth, "X-Organization-Id: "+p.org).want(w.t, "the session of a displaced account", 200, "")
	if a := w.loginFrom(p.email, password, home).want(w.t, "the password of a displaced account", 200, ""); a.text(w.t, "user.id") != p.id {
		w.t.Errorf("the password of %s logs in %s", p.id, a.body)
	}
}

// signedIn returns the person whose session begins with the response.
func (a answer) signedIn(t *testing.T) person {
	t.Helper()
	p := person{id: a.text(t, "user.id"), org: a.text(t, "organization.id"), email: a.text(t, "user.email")}
	p.carry(a.text(t, "token"))
	return p
}

// TestAddingNeverMakesMembers invites an email address that has an account. The account becomes a
// member only when its owner accepts.
func TestAddingNeverMakesMembers(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	owner, squatter := w.signUp("owner@example.com"), w.signUp("cfo@example.com")
	at := "X-Organization-Id: " + owner.org
	known := w.add(owner, owner.org, "CFO@example.com", domain.RoleAdmin).want(t, "an address with an account", 201, "")
	unknown := w.add(owner, owner.org, "nobody@example.com", domain.RoleAdmin).want(t, "an address without one", 201, "")
	for _, a := range []answer{known, unknown} {
		if !id.Valid(id.Invitation, a.text(t, "id")) || a.text(t, "status") != "invited" || a.text(t, "expiresAt") == "" || a.json(t, "name") != nil ||
			!strings.HasPrefix(a.text(t, "url"), "http://parley.test/accept?token=pi_") {
			t.Errorf("invited %s", a.body)
		}
	}
	w.do("GET", "/api/agents", "", squatter.auth, at).want(t, "the squatter in the organization", 403, "permission_denied")
	w.do("GET", "/api/auth/invitations", "", squatter.auth).want(t, "the squatter's invitations", 403, "permission_denied")
	for _, action := range []string{"accept", "decline"} {
		a := w.do("POST", "/api/auth/invitations?action="+action+"&id="+known.text(t, "id"), "", squatter.auth).want(t, "the squatter says "+action, 403, "permission_denied")
		if !strings.Contains(a.text(t, "detail"), "through its link") {
			t.Errorf("the message does not say what to do: %s", a.body)
		}
	}
	list := w.do("GET", "/api/organizations/members", "", owner.auth)
	if strings.Contains(string(list.body), squatter.id) || strings.Count(string(list.body), `"invited"`) != 2 {
		t.Errorf("members %s", list.body)
	}
}

// TestLinksTakeAddressesOver signs up a squatter with another person's email address. The real
// person joins with the invitation's link and receives none of the squatter's data. The squatter
// may have acted in good faith, and keeps what the account contains.
func TestLinksTakeAddressesOver(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	owner, squatter := w.signUp("owner@example.com"), w.signUp("cfo@example.com")
	login := secrets.NewLinkToken()
	must(t, w.store.Accounts.CreateLoginLink(t.Context(), squatter.id, secrets.Hash(login), time.Now().Add(time.Hour)))
	token := w.add(owner, owner.org, "cfo@example.com", domain.RoleAdmin).token(t)
	cfo := w.do("POST", "/api/auth/accept", accepting(token, `,"name":"Cleo","password":"`+newPassword+`"`)).want(t, "taking over", 201, "").signedIn(t)
	if cfo.id == squatter.id || cfo.org != owner.org {
		t.Errorf("the person is %+v", cfo)
	}
	w.wantKept(squatter)
	if a := w.do("GET", "/login?token="+login, ""); a.status != 410 {
		t.Errorf("the squatter's login link: %d", a.status)
	}
	session := w.do("GET", "/api/auth/session", "", cfo.auth).want(t, "session", 200, "")
	if session.text(t, "caller.role") != "admin" || session.text(t, "user.name") != "Cleo" || session.text(t, "organizations.1.name") != "Cleo's organization" ||
		session.json(t, "organizations.2") != nil || strings.Contains(string(session.body), squatter.org) {
		t.Errorf("session %s", session.body)
	}
	w.loginFrom("cfo@example.com", newPassword, home).want(t, "the person's password", 200, "")
	w.do("POST", "/api/auth/signup", `{"email":"CFO@example.com","password":"`+password+`"}`).want(t, "signing up again", 409, "email_taken")
}

// TestInvitationsDoNotHarmAccounts lets a stranger create an organization and invite an email
// address whose account is in use. The stranger knows the invitation's link.
func TestInvitationsDoNotHarmAccounts(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, stranger := w.signUp("ada@example.com"), w.signUp("stranger@example.com")
	agent := w.do("POST", "/api/agents", agentBody, ada.auth).want(t, "an agent", 201, "").text(t, "id")
	key, _ := w.key(ada, domain.KeyScopeUser)
	token := w.add(stranger, stranger.org, ada.email, domain.RoleMember).token(t)
	taker := w.do("POST", "/api/auth/accept", accepting(token, `,"password":"`+newPassword+`"`)).want(t, "taking over", 201, "").signedIn(t)
	w.do("GET", "/api/agents?id="+agent, "", taker.auth, "X-Organization-Id: "+ada.org).want(t, "the stranger in her organization", 403, "permission_denied")
	for name, credential := range map[string]string{"session": ada.auth, "key": key} {
		w.do("GET", "/api/agents?id="+agent, "", credential, "X-Organization-Id: "+ada.org).want(t, "her "+name, 200, "")
	}
	if a := w.loginFrom(ada.email, password, home).want(t, "her password", 200, ""); a.text(t, "user.id") != ada.id || a.text(t, "organization.id") != ada.org {
		t.Errorf("her login %s", a.body)
	}
	if a := w.loginFrom(ada.email, newPassword, home).want(t, "the stranger's password", 200, ""); a.text(t, "user.id") != taker.id {
		t.Errorf("the stranger's login %s", a.body)
	}
	// The user of the account can still accept an invitation with her own password or in her
	// session. Changes to her role take effect.
	owner := w.signUp("owner@example.com")
	invitation := w.add(owner, owner.org, ada.email, domain.RoleMember).token(t)
	if a := w.do("POST", "/api/auth/accept", accepting(invitation, withPassword)).want(t, "accepting", 201, ""); a.text(t, "user.id") != ada.id {
		t.Errorf("accepted %s", a.body)
	}
	if a := w.add(owner, owner.org, ada.email, domain.RoleAdmin).want(t, "another role", 200, ""); a.text(t, "id") != ada.id {
		t.Errorf("changed %s", a.body)
	}
	w.do("POST", "/api/auth/accept", accepting(w.add(ada, ada.org, ada.email+".example", domain.RoleMember).token(t), ""), ada.auth).
		want(t, "an invitation of another address", 400, "invalid_request password:required")
}

// TestLinksProveNothingToOthers lets an accomplice's organization invite a squatted address and
// give the link of the invitation to the squatter. The link does not prove to other organizations
// that the squatter owns the address.
func TestLinksProveNothingToOthers(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	owner, accomplice := w.signUp("owner@example.com"), w.signUp("accomplice@example.com")
	squatter := w.invited(accomplice, accomplice.org, "cfo@example.com", domain.RoleMember)
	reset := w.do("POST", "/api/organizations/members?action=reset&id="+squatter.id, "", accomplice.auth).want(t, "the accomplice's link", 201, "").token(t)
	squatter = w.do("POST", "/api/auth/reset", accepting(reset, withPassword)).want(t, "setting a password", 200, "").signedIn(t)
	invited := w.add(owner, owner.org, "cfo@example.com", domain.RoleMember)
	w.do("GET", "/api/auth/invitations", "", squatter.auth).want(t, "listing", 403, "permission_denied")
	w.do("POST", "/api/auth/invitations?action=accept&id="+invited.text(t, "id"), "", squatter.auth).want(t, "accepting", 403, "permission_denied")
	cfo := w.do("POST", "/api/auth/accept", accepting(invited.token(t), `,"password":"`+newPassword+`"`)).want(t, "the real person", 201, "").signedIn(t)
	if cfo.id == squatter.id {
		t.Error("the person got the squatter's account")
	}
	w.do("GET", "/api/agents", "", squatter.auth, "X-Organization-Id: "+owner.org).want(t, "the squatter in the organization", 403, "permission_denied")
}

// TestSquattersDoNotLockOwnersOut displaces a person repeatedly, by invitations of many
// organizations. The person's password continues to work, and a check of the password still takes a
// single hash computation. With a link from the operator, the person recovers the address
// permanently.
func TestSquattersDoNotLockOwnersOut(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	cfo, stranger := w.signUp("cfo@example.com"), w.signUp("stranger@example.com")
	squat := func(organization, n int) answer {
		org := stranger.org
		if organization > 0 {
			org = w.do("POST", "/api/organizations", fmt.Sprintf(`{"name":"number %d"}`, n), stranger.auth).want(t, "another organization", 201, "").text(t, "id")
		}
		token := w.add(stranger, org, cfo.email, domain.RoleMember).want(t, "inviting", 201, "").token(t)
		return w.do("POST", "/api/auth/accept", accepting(token, fmt.Sprintf(`,"password":"squatter's password %d"`, n)))
	}
	for n := range 12 {
		taker := squat(n%2, n).want(t, "squatting", 201, "").signedIn(t)
		if n%2 == 0 {
			w.do("DELETE", "/api/organizations/members?id="+taker.id, "", stranger.auth).want(t, "removing", 200, "")
		}
	}
	w.wantKept(cfo)
	w.loginFrom(cfo.email, "squatter's password 3", home).want(t, "another displaced account", 200, "")
	if schemes, err := w.store.Accounts.PasswordSchemes(t.Context(), cfo.email); err != nil || len(schemes) != 1 {
		t.Errorf("a login computes %d keys, %v", len(schemes), err)
	}
	w.do("POST", "/api/agents", agentBody, cfo.auth).want(t, "the account in use", 201, "")
	token := secrets.NewResetToken()
	must(t, w.store.Accounts.CreateReset(t.Context(), cfo.id, secrets.Hash(token), time.Now().Add(time.Hour)))
	w.do("POST", "/api/auth/reset", accepting(token, withPassword)).want(t, "the operator's link", 200, "")
	if holder, _, err := w.store.Accounts.UserByEmail(t.Context(), cfo.email); err != nil || holder.ID != cfo.id {
		t.Errorf("the address is that of %+v, %v", holder, err)
	}
	squat(1, 12).want(t, "squatting a proven address", 401, "unauthenticated")
	w.do("POST", "/api/auth/accept", accepting(w.add(stranger, stranger.org, cfo.email, domain.RoleMember).token(t), `,"password":"x"`)).
		want(t, "a short password tells nothing", 400, "invalid_request password:too_short")
	w.loginFrom(cfo.email, password, home).want(t, "the proven account", 200, "")
}

// TestSquattersGuessWithinLimits guesses the real person's password from the client address at
// which a squatter is logged in. This address is not familiar to the real person's account.
func TestSquattersGuessWithinLimits(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	cfo, stranger := w.signUp("cfo@example.com"), w.signUp("stranger@example.com")
	token := w.add(stranger, stranger.org, cfo.email, domain.RoleMember).token(t)
	w.do("POST", "/api/auth/accept", accepting(token, `,"password":"`+newPassword+`"`)).want(t, "squatting", 201, "")
	w.loginFrom(cfo.email, password, home).want(t, "the real person", 200, "")
	w.loginFrom(cfo.email, newPassword, elsewhere).want(t, "the squatter", 200, "")
	for range 1000 {
		w.api.account.Logins.Account.Begin(cfo.email)
	}
	w.loginFrom(cfo.email, password, elsewhere).want(t, "a right guess from the squatter's address", 401, "unauthenticated")
	for range 3 { // logging in to the squatter's own account allows no further guesses
		w.loginFrom(cfo.email, newPassword, elsewhere).want(t, "the squatter's own password", 200, "")
		w.loginFrom(cfo.email, password, "198.51.100.9").want(t, "a guess from a new address", 429, "rate_limited")
	}
	w.loginFrom(cfo.email, password, home).want(t, "the real person's address", 200, "")
}

// TestAdminsCannotOpenProvenAccounts checks an account that an organization's invitation has
// created. After the person has proven the address, the organization has no power over the account.
func TestAdminsCannotOpenProvenAccounts(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	stranger := w.signUp("stranger@example.com")
	squatter := w.invited(stranger, stranger.org, "cfo@example.com", domain.RoleMember)
	early := w.do("POST", "/api/organizations/members?action=reset&id="+squatter.id, "", stranger.auth).want(t, "before", 201, "").token(t)
	token := secrets.NewResetToken()
	must(t, w.store.Accounts.CreateReset(t.Context(), squatter.id, secrets.Hash(token), time.Now().Add(time.Hour)))
	w.do("POST", "/api/auth/reset", accepting(token, withPassword)).want(t, "the operator's link", 200, "")
	w.do("POST", "/api/organizations/members?action=reset&id="+squatter.id, "", stranger.auth).want(t, "after", 403, "permission_denied")
	w.do("POST", "/api/auth/reset", accepting(early, withPassword)).want(t, "a link from before", 404, "not_found")
}

// TestOwnInvitations lets a person with a proven address answer invitations without their links.
func TestOwnInvitations(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	owner, other, bea := w.signUp("owner@example.com"), w.signUp("other@example.com"), w.signUp("bea@example.com")
	userKey, _ := w.key(bea, domain.KeyScopeUser)
	orgKey, _ := w.key(bea, domain.KeyScopeOrganization)
	must(t, w.store.Accounts.ProveAddress(t.Context(), bea.id))
	foreign := w.add(owner, owner.org, "somebody@example.com", domain.RoleMember).text(t, "id")
	wanted, unwanted := w.add(owner, owner.org, "Bea@example.com", domain.RoleAdmin), w.add(other, other.org, bea.email, domain.RoleMember)
	w.exec(`INSERT INTO invitations (id, org_id, email, role, token_hash, made_by, expires_at)
		SELECT 'inv_over', id, 'bea@example.com', 'owner', '\x01', '', clock_timestamp() FROM organizations WHERE id = $1`, bea.org)
	list := w.do("GET", "/api/auth/invitations", "", bea.auth).want(t, "listing", 200, "")
	if list.text(t, "data.0.id") != unwanted.text(t, "id") || list.text(t, "data.0.organization.id") != other.org || list.text(t, "data.1.id") != wanted.text(t, "id") ||
		list.text(t, "data.1.organization.name") != "owner's organization" || list.text(t, "data.1.role") != "admin" ||
		list.text(t, "data.1.expiresAt") != wanted.text(t, "expiresAt") || list.json(t, "data.2") != nil || strings.Contains(string(list.body), "pi_") {
		t.Errorf("invitations %s", list.body)
	}
	first := w.do("GET", "/api/auth/invitations?limit=1", "", bea.auth).want(t, "first page", 200, "")
	rest := w.do("GET", "/api/auth/invitations?limit=1&cursor="+first.text(t, "nextCursor"), "", bea.auth).want(t, "second page", 200, "")
	if rest.text(t, "data.0.id") != wanted.text(t, "id") || rest.json(t, "hasMore") != false {
		t.Errorf("pages %s and %s", first.body, rest.body)
	}
	target := "/api/auth/invitations?id=" + wanted.text(t, "id")
	at := "X-Organization-Id: " + bea.org
	for name, key := range map[string]string{"a user's key": userKey, "an organization's key": orgKey} {
		w.do("GET", "/api/auth/invitations", "", key, at).want(t, name+" lists", 403, "permission_denied")
		w.do("POST", target+"&action=accept", "", key, at).want(t, name+" accepts", 403, "permission_denied")
	}
	w.do("POST", target, "", bea.auth).want(t, "no action", 400, "invalid_request action:invalid_value")
	w.do("POST", target+"&action=king", "", bea.auth).want(t, "unknown action", 400, "invalid_request action:invalid_value")
	w.do("POST", "/api/auth/invitations?action=accept", "", bea.auth).want(t, "no id", 400, "invalid_request id:required")
	for name, other := range map[string]string{"another's": foreign, "expired": "inv_over", "unknown": id.New(id.Invitation), "another kind": bea.id} {
		w.do("POST", "/api/auth/invitations?action=accept&id="+other, "", bea.auth).want(t, name, 404, "not_found")
	}
	a := w.do("POST", target+"&action=accept", "", bea.auth).want(t, "accepting", 200, "")
	if a.text(t, "status") != "accepted" || a.text(t, "organization.id") != owner.org || a.text(t, "role") != "admin" {
		t.Errorf("accepted %s", a.body)
	}
	in := "X-Organization-Id: " + owner.org
	if s := w.do("GET", "/api/auth/session", "", bea.auth, in).want(t, "a member at once", 200, ""); s.text(t, "caller.role") != "admin" {
		t.Errorf("session %s", s.body)
	}
	w.do("POST", target+"&action=accept", "", bea.auth).want(t, "accepting again", 404, "not_found")
	w.do("POST", "/api/auth/accept", accepting(wanted.token(t), ""), bea.auth).want(t, "its link after that", 404, "not_found")
	declined := w.do("POST", "/api/auth/invitations?action=decline&id="+unwanted.text(t, "id"), "", bea.auth).want(t, "declining", 200, "")
	if declined.text(t, "status") != "declined" {
		t.Errorf("declined %s", declined.body)
	}
	w.do("GET", "/api/agents", "", bea.auth, "X-Organization-Id: "+other.org).want(t, "no member", 403, "permission_denied")
	w.do("POST", "/api/auth/accept", accepting(unwanted.token(t), ""), bea.auth).want(t, "the declined link", 404, "not_found")
	w.do("DELETE", "/api/organizations/members?id="+bea.id, "", bea.auth, in).want(t, "leaving", 200, "")
	w.do("GET", "/api/agents", "", bea.auth, in).want(t, "having left", 403, "permission_denied")
	w.do("DELETE", "/api/organizations/members?id="+owner.id, "", owner.auth).want(t, "the last owner leaves", 409, "last_owner")
}

// TestProvenAddressesAreNotTakenOver checks that no link opens or displaces an account whose
// address is proven.
func TestProvenAddressesAreNotTakenOver(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, stranger := w.signUp("ada@example.com"), w.signUp("stranger@example.com")
	key, _ := w.key(ada, domain.KeyScopeUser)
	reset := secrets.NewResetToken()
	must(t, w.store.Accounts.CreateReset(t.Context(), ada.id, secrets.Hash(reset), time.Now().Add(time.Hour)))
	proven := w.do("POST", "/api/auth/reset", accepting(reset, withPassword)).want(t, "the operator's link", 200, "").signedIn(t)
	w.do("GET", "/api/auth/session", "", key, "X-Organization-Id: "+ada.org).want(t, "a key of before the proof", 401, "unauthenticated")
	token := w.add(stranger, stranger.org, ada.email, domain.RoleMember).token(t)
	w.do("POST", "/api/auth/accept", accepting(token, `,"password":"`+newPassword+`"`)).want(t, "a new password", 401, "unauthenticated")
	w.do("POST", "/api/auth/accept", accepting(token, `,"password":"`+newPassword+`"`), stranger.auth).want(t, "in the stranger's session", 401, "unauthenticated")
	w.do("GET", "/api/auth/session", "", proven.auth).want(t, "her session", 200, "")
	w.do("GET", "/api/auth/invitations", "", proven.auth).want(t, "her invitations", 200, "")
	kept, _ := w.key(proven, domain.KeyScopeUser)
	again := secrets.NewResetToken()
	must(t, w.store.Accounts.CreateReset(t.Context(), ada.id, secrets.Hash(again), time.Now().Add(time.Hour)))
	w.do("POST", "/api/auth/reset", accepting(again, withPassword)).want(t, "another link of the operator's", 200, "")
	w.do("GET", "/api/auth/session", "", kept, "X-Organization-Id: "+ada.org).want(t, "a key of after the proof", 200, "")
	_, err := w.store.Accounts.JoinNew(t.Context(), secrets.Hash(token), "x", "x", accountdb.NewLogin{})
	if err == nil || !strings.Contains(err.Error(), "email address already exists") {
		t.Errorf("taking over in the store: %v", err)
	}
}
